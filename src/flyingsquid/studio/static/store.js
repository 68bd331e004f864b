// The state of the project as the server last sent it, and the changes that the page asks for.

import { get, isAbort, post } from "./api.js";

const LOST = "Connection lost. Your changes are saved. The page reconnects when the studio runs again.";
const REFUSED = "The studio was started again. Open the address that it printed in the terminal.";
const RETRY_MS = 3000;
const listeners = new Set();
const progressListeners = new Set();
const connectionListeners = new Set();

export const store = {
  state: null,
  /** The type of the action that led to the current revision, or null if another page or file caused it. */
  cause: null,
};

export const onState = (listener) => listeners.add(listener);
export const onProgress = (listener) => progressListeners.add(listener);
/** Listeners get null if the connection is up, or a message. */
export const onConnection = (listener) => connectionListeners.add(listener);

const tell = (group, ...values) => group.forEach((listener) => listener(...values));

const causes = new Map();
let restarted = true;

function accept(state) {
  // Revisions only grow, except after a restart of the server.
  if (store.state && !restarted && state.revision < store.state.revision) return;
  restarted = false;
  const previous = store.state;
  store.state = state;
  const isNew = !previous || previous.revision !== state.revision;
  if (isNew) store.cause = causes.get(state.revision) || null;
  causes.forEach((_, revision) => revision <= state.revision && causes.delete(revision));
  tell(listeners, state, previous);
  document.documentElement.dataset.revision = String(state.revision);
}

let loading = null;
let again = false;

/** Load the state. Calls while a request is under way lead to one more request, not to many. */
export function refresh() {
  if (loading) {
    again = true;
    return loading;
  }
  loading = (async () => {
    try {
      do {
        again = false;
        accept(await get("/api/state"));
      } while (again);
    } catch (error) {
      if (!isAbort(error)) tell(connectionListeners, error.message);
    } finally {
      loading = null;
    }
  })();
  return loading;
}

async function change(path, body, cause) {
  const answer = await post(path, body);
  if (!store.state || answer.revision > store.state.revision) causes.set(answer.revision, cause);
  if (answer.state) accept(answer.state);
  else if (!store.state || answer.revision >= store.state.revision) await refresh();
  return answer;
}

/** Make a change. Throws a StudioError, which the caller shows next to the control. */
export const act = (action) => change("/api/actions", action, action.type);
export const undo = () => change("/api/undo", {}, "undo");
export const redo = () => change("/api/redo", {}, "redo");

/** Follow the events of the server. The browser reconnects by itself; then the state is loaded again. */
export function connect() {
  const events = new EventSource("/api/events");
  events.addEventListener("open", () => {
    tell(connectionListeners, null);
    restarted = true;
    refresh();
  });
  events.addEventListener("message", (event) => {
    const data = JSON.parse(event.data);
    if (data.progress) tell(progressListeners, data.progress);
    const isNews = data.revision !== undefined && data.revision !== store.state?.revision;
    if (isNews || "table" in data) refresh();
  });
  events.addEventListener("error", async () => {
    if (events.readyState !== EventSource.CLOSED) {
      tell(connectionListeners, LOST);
      return;
    }
    // The browser does not retry after a refused connection.
    try {
      await get("/api/state");
    } catch (error) {
      tell(connectionListeners, error.status === 403 ? REFUSED : LOST);
    }
    setTimeout(connect, RETRY_MS);
  });
}
