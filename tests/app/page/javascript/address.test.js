import assert from "node:assert/strict";
import test from "node:test";
import { asked, read, written } from "../../../../pipeline/glasstream/app/page/static/address.js";

const NAMES = ["age", "a&b=c", "#1 + 2", "ü ~ %", "pin", "constructor"];

test("an address is read back as the view that it was written from", () => {
  for (const name of NAMES) {
    for (const mode of ["lines", "stacked"]) {
      for (const [top, window, theme] of [
        ["8", "", ""],
        ["0", "5000", "dark"],
        ["40", "1", "light"],
      ]) {
        const chosen = { stream: name, method: "isage", effect: name, output: name, alarm: `9~loss~~${name}` };
        const view = { ...read(""), ...chosen, mode, top, window, theme, pin: [name, "other"] };
        assert.deepEqual(read(written(view)), view);
        assert.deepEqual(read(`#${written(view)}`), view);
      }
    }
  }
});

test("the default view has an empty address", () => {
  assert.equal(written(read("")), "");
});

test("invalid parts of an address are ignored", () => {
  const rubbish = ["mode=3d", "top=41", "top=-1", "top=8.5", "top=100", "window=all", "theme=pink", "unknown=1"];
  for (const hash of rubbish) assert.deepEqual(read(hash), read(""), hash);
});

test("the query holds what the server needs, and nothing about the drawing", () => {
  const view = { ...read("mode=stacked&theme=dark&window=1000&then=5&alarm=1"), pin: ["a", "b"], stream: "s" };
  assert.equal(asked(view), "top=8&stream=s&pin=a&pin=b");
  assert.equal(asked(read("")), "top=8");
});
