//! Prints JSON for scripts. Everything that `--json` prints goes through here, because on a
//! terminal characters that control it, are invisible or change the direction of writing become
//! JSON escapes. That does not change the values. A pipe or a file gets the characters themselves.
#![allow(clippy::print_stdout, reason = "the answer is printed")]

use std::io::{self, IsTerminal};

use domain::escape;
use serde::Serialize;

/// Why a value can be written: JSON allows only strings as the keys of an object.
const KEYS_ARE_STRINGS: &str = "all keys of the answers are strings";

/// Prints a value, indented over several lines.
pub(super) fn print_indented(value: &impl Serialize) {
    print(&serde_json::to_string_pretty(value).expect(KEYS_ARE_STRINGS));
}

/// Prints a value on one line.
pub(super) fn print_line(value: &impl Serialize) {
    print(&serde_json::to_string(value).expect(KEYS_ARE_STRINGS));
}

fn print(json: &str) {
    if io::stdout().is_terminal() {
        println!("{}", escape::json(json));
    } else {
        println!("{json}");
    }
}
