// Holds asyncapi.yaml against the official parser. Fails on errors and on warnings: a
// document that tools complain about is no contract.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Parser } from "@asyncapi/parser";

const source = fileURLToPath(new URL("../asyncapi.yaml", import.meta.url));
const { document, diagnostics } = await new Parser().parse(await readFile(source, "utf8"), { source });
const names = ["error", "warning", "information", "hint"];
for (const { severity, path, message } of diagnostics) {
  console.error(`${names[severity]} at ${path.join(".")}: ${message}`);
}
if (document === undefined || diagnostics.some(({ severity }) => severity < 2)) process.exit(1);
console.log(
  `asyncapi.yaml: AsyncAPI ${document.version()}, ${document.channels().length} channels, ` +
    `${document.operations().length} operations, ${document.messages().length} messages`,
);
