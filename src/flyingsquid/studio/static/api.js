// Requests to the studio. Errors carry the message for the person and the field that caused them.

class StudioError extends Error {
  constructor(message, field = null, status = 0) {
    super(message);
    this.name = "StudioError";
    this.field = field;
    this.status = status;
  }
}

export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new StudioError("The studio does not respond. Check that it is still running in the terminal.");
  }
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (isAbort(error)) throw error;
  }
  if (!response.ok) {
    const found = (body && body.error) || {};
    throw new StudioError(
      found.message || `The studio responded with status ${response.status}.`,
      found.field || null,
      response.status,
    );
  }
  return body;
}

export const get = (path, signal) => request(path, { signal });

export const post = (path, body = {}, signal = undefined) =>
  request(
    path,
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal },
  );

/** Return a function that makes one request at a time: a newer one cancels the one before it. */
export function superseding() {
  let controller = null;
  return {
    cancel() {
      if (controller) controller.abort();
      controller = null;
    },
    async run(make) {
      if (controller) controller.abort();
      const mine = new AbortController();
      controller = mine;
      const answer = await make(mine.signal);
      // An answer that arrived just before it was superseded is out of date as well.
      if (mine.signal.aborted) throw new DOMException("superseded", "AbortError");
      return answer;
    },
  };
}
