import assert from "node:assert/strict";
import { test } from "node:test";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { App } from "./snippets.js";

test("what is shown with React renders", () => {
  assert.equal(renderToStaticMarkup(createElement(App, { ids: ["bob"] })), "<p>connecting</p><p>one moment</p>");
});
