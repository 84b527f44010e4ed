//! The bridge as a separate small program, with which `acpd acp` replaces itself.
//!
//! It uses the crate `bridge` and nothing else, so it contains neither the agent nor a runtime.

use std::process::ExitCode;

fn main() -> ExitCode {
    bridge::program::main()
}
