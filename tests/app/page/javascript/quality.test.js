// The model beside its baselines: a sentence and a tile.
import assert from "node:assert/strict";
import test from "node:test";
import { beside, comparedLine, standingSentence } from "../../../../pipeline/glasstream/app/page/static/quality.js";

const NONE = {
  diverged: false,
  largest: null,
  kappa_m: null,
  kappa_temporal: null,
  balanced: null,
  log_loss: null,
  log_loss_events: 0,
  roc_auc: null,
};
const KAPPAS = { ...NONE, kappa_m: -1 / 3, kappa_temporal: 0.6, balanced: 0.5 };
const SHARES = {
  ...KAPPAS,
  events: 1000,
  model: 0.96,
  constant: 0.97,
  no_change: 0.9,
  most_frequent: "no",
  beaten: false,
};

test("a model that is no better than its best baseline is called so, whichever that is", () => {
  const frequent = "(right in the last 1,000 events: the model 96.0 %, always “no” 97.0 %).";
  assert.deepEqual(standingSentence(SHARES), {
    beaten: false,
    text: `The model is no better than a baseline ${frequent}`,
  });
  const before = standingSentence({ ...SHARES, no_change: 0.975 });
  assert.match(before?.text ?? "", /no better.*model 96\.0 %, the previous label 97\.5 %/);
  const numbers = { events: 10, model: 2, constant: 3, no_change: 1.5, most_frequent: null, beaten: false, ...NONE };
  const text = "The model is no better than a baseline (mean absolute error in the last 10 events: the model 2, ";
  assert.equal(standingSentence(numbers)?.text, `${text}the previous value 1.5).`);
  const diverged = standingSentence({ ...numbers, model: 2e11, diverged: true })?.text ?? "";
  assert.match(diverged, /^The model has diverged, so its explanations, alarms and incidents mean nothing \(/);
});

test("a model that beats its baselines stands beside the best of them", () => {
  const sentence = standingSentence({ ...SHARES, model: 0.98, beaten: true });
  assert.ok(sentence?.beaten);
  assert.match(sentence.text, /^The model is better than its baselines \(.*model 98\.0 %, always “no” 97\.0 %/);
  assert.equal(standingSentence(null), null);
});

test("the tiles show the model, both baselines, and what a share of right predictions hides", () => {
  const [[name, value, remark], kappa] = beside(SHARES);
  assert.deepEqual(kappa, ["kappa-M, last 1,000", "−0.33", "kappa-temporal 0.60, balanced accuracy 50 %"]);
  const [, more] = beside({ ...SHARES, log_loss: 0.25, log_loss_events: 1000, roc_auc: 0.875 });
  assert.match(more[2], /50 %, ROC AUC 0\.875, log loss 0\.25$/);
  const [, cut] = beside({ ...SHARES, log_loss: 0.25, log_loss_events: 990 });
  assert.match(cut[2], /log loss 0\.25 \(of the 990 events that name the class\)$/);
  assert.equal(beside({ ...SHARES, kappa_m: null })[1][1], "–");
  assert.deepEqual([name, value], ["right, last 1,000", "96 %"]);
  assert.equal(remark, "always “no” 97 %, previous label 90 %");
});

test("numbers have errors, and nothing is shown before the first comparison", () => {
  const numbers = { events: 10, model: 2, constant: 3, no_change: 4, most_frequent: null, beaten: true, ...NONE };
  assert.deepEqual(beside(numbers), [["mean absolute error, last 10", "2", "mean so far 3, value before 4"]]);
  assert.deepEqual(beside(null), []);
});

test("a comparison has the sign of who is better", () => {
  assert.deepEqual(comparedLine({ better: "stream", text: "a is better" }), { kind: "good", text: "✓ a is better" });
  assert.deepEqual(comparedLine({ better: "other", text: "b is better" }), { kind: "warn", text: "▲ b is better" });
  assert.deepEqual(comparedLine({ better: null, text: "not known yet" }), { kind: "", text: "– not known yet" });
});
