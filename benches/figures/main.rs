//! Measures the whole program from outside and writes docs/performance.md.
//!
//! A model server in this process streams as fast as it is read. The real daemon sends requests to
//! it, real bridges carry the answers, and clients in this process read them. Each figure is
//! measured in the same run as a floor: an agent that only relays the model's stream, without
//! history, actors or permission questions (`floor_agent`).
//!
//! `cargo bench --bench figures` prints the figures; with `-- --write` it also writes
//! docs/performance.md, its plots, and the figures in README.md. It takes about four minutes. A
//! word selects the sections whose names contain it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints what it measured, or panics")]

mod client;
mod floor_agent;
mod growth;
mod model_server;
mod reasons;
mod report;
mod rows;
mod world;

use report::Report;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, address] = &arguments[..]
        && flag == floor_agent::FLAG
    {
        return floor_agent::run(address);
    }
    // Cargo passes `--bench` for a benchmark. Without it this is a test run, which should be short.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return reasons::check();
    }
    let write = arguments.iter().any(|argument| argument == "--write");
    let wanted = arguments.iter().find(|argument| !argument.starts_with("--")).cloned();
    let mut report = Report::new(wanted);
    rows::measure(&mut report);
    growth::measure(&mut report);
    report.print_reasons();
    if write {
        report.write();
    }
}
