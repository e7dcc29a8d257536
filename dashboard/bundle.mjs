// Bundles src/ into the folder from which the coordinator serves it: hashed names, one page, the licences.
// The folder is the first argument that isn't an option; --watch bundles again whenever a source changes.

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const named = process.argv.slice(2).filter((each) => !each.startsWith("--"));
const target = resolve(named[0] ?? join(here, "../src/anabranch/coordinator/static"));
const libraries = ["preact", "@preact/signals", "@preact/signals-core", "uplot"];

/** The page, with the hashed names of script and style sheet. */
async function page(outputs) {
  const [script, { cssBundle }] = Object.entries(outputs).find(([, each]) => each.entryPoint?.endsWith("app.tsx"));
  const text = await readFile(join(here, "src/index.html"), "utf8");
  return text.replace("app.js", basename(script)).replace("app.css", basename(cssBundle));
}

async function licences() {
  const texts = libraries.map(async (name) => {
    const folder = join(here, "node_modules", name);
    const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    return `${name} ${version}\n\n${await readFile(join(folder, "LICENSE"), "utf8")}`;
  });
  return (await Promise.all(texts)).join(`\n${"-".repeat(72)}\n\n`);
}

const finish = {
  name: "page",
  setup(build) {
    build.onStart(() => rm(target, { recursive: true, force: true }));
    build.onEnd(async ({ errors, metafile, outputFiles }) => {
      if (errors.length) return;
      await mkdir(target, { recursive: true });
      for (const each of outputFiles) await writeFile(join(target, basename(each.path)), each.contents);
      await writeFile(join(target, "index.html"), await page(metafile.outputs));
      await writeFile(join(target, "LICENSES.txt"), await licences());
    });
  },
};

const built = await context({
  entryPoints: [join(here, "src/app.tsx")],
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  splitting: true,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: target,
  metafile: true,
  write: false,
  legalComments: "none",
  logLevel: "info",
  plugins: [finish],
});
if (process.argv.includes("--watch")) {
  await built.watch();
} else {
  try {
    await built.rebuild();
  } finally {
    await built.dispose();
  }
}
