#!/usr/bin/env node
// Runs the program of this platform's package with the same arguments, input, output and exit status.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

function program() {
  const name = `acpd-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/acpd`);
  } catch {
    console.error(`acpd: the package ${name} is not installed.`);
    console.error("acpd is published for Linux on x86-64. If that is what you have, install acpd again");
    console.error("without --omit=optional; elsewhere, build it from source with cargo.");
    process.exit(1);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });

// The terminal sends its signals to both processes; the program decides what they mean. Those that only this process gets
// are passed on.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));

child.on("error", (error) => {
  console.error(`acpd: cannot run the program: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal === null ? code : 128 + constants.signals[signal]);
});
