"""The same comments and rules in a PyTorch training loop: the loss estimates the accuracies of the rules."""

from __future__ import annotations

import argparse

import numpy as np
import torch
from comments import RULES, apply_rules, draw_comments
from sklearn.feature_extraction.text import TfidfVectorizer

from flyingsquid.torch import LabelModelLoss


def main(n_items: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    texts, _ = draw_comments(n_items, rng)
    new_texts, new_y = draw_comments(1_000, rng)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2)).fit(texts)
    X = torch.as_tensor(vectorizer.transform(texts).toarray(), dtype=torch.float32)
    votes = torch.as_tensor(apply_rules(texts).codes)

    torch.manual_seed(0)
    model = torch.nn.Linear(X.shape[1], 1)
    loss_fn = LabelModelLoss(len(RULES), method="covariance")
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for epoch in range(4):
        # The first epoch contains all votes; counting them again would make intervals too narrow.
        loss_fn.train(epoch == 0)
        for rows in torch.randperm(len(X)).split(64):
            optimizer.zero_grad()
            loss = loss_fn(model(X[rows]), votes[rows])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")

    new_X = torch.as_tensor(vectorizer.transform(new_texts).toarray(), dtype=torch.float32)
    with torch.no_grad():
        answers = (model(new_X)[:, 0] > 0).numpy()
    scores = {"n-grams, rules learned in the loop": float((answers == new_y).mean())}
    print(loss_fn.label_model.summary())
    for name, accuracy in scores.items():
        print(f"{name:36} {accuracy:.3f}")
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=5_000)
    main(parser.parse_args().items)
