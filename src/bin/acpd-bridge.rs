//! The bridge as a small program of its own, which acpd executes in its place for `acpd acp`.
//!
//! It uses the crate `bridge` and nothing else, so it contains neither the agent nor a runtime.

use std::process::ExitCode;

fn main() -> ExitCode {
    bridge::program::main()
}
