//! The shape of a file: its first line, its length, its name and the width of its comments.

use crate::source::{File, comment_lines, count, hold, tree};

/// The maximum number of lines of a file, and of one in a `tests` folder.
const LONGEST: usize = 500;
const LONGEST_TEST: usize = 800;

/// The maximum width of a comment. Code may be wider, see `rustfmt.toml`.
const WIDEST_COMMENT: usize = 100;

fn unopened(files: &[File]) -> Vec<String> {
    let bad = files.iter().filter(|file| file.is_rust() && !file.text.starts_with("//!"));
    bad.map(|file| format!("{}: open it with `//!` lines that say what it owns and may not know", file.path)).collect()
}

fn too_long(files: &[File]) -> Vec<String> {
    let lengths = files.iter().filter(|file| file.is_rust()).filter_map(|file| {
        let is_test = file.path.starts_with("tests/") || file.path.contains("/tests/");
        let limit = if is_test { LONGEST_TEST } else { LONGEST };
        let lines = file.text.lines().count();
        (lines > limit).then(|| format!("{}: {lines} lines, {limit} at most; take one thing out of it", file.path))
    });
    lengths.collect()
}

fn mod_files(files: &[File]) -> Vec<String> {
    let bad = files.iter().filter(|file| file.path.ends_with("/mod.rs"));
    bad.map(|file| format!("{}: name it after what is in it, beside its folder: `x.rs` and `x/`", file.path)).collect()
}

/// Comments that are too wide. Tables and fenced text cannot be wrapped.
fn wide_comments(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let mut is_fenced = false;
        for (number, line) in comment_lines(&file.text) {
            let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
            is_fenced ^= text.starts_with("```");
            if !is_fenced && !text.starts_with('|') && line.chars().count() > WIDEST_COMMENT {
                complaints.push(format!("{}:{number}: wrap the comment at {WIDEST_COMMENT} columns", file.path));
            }
        }
    }
    complaints
}

#[test]
fn every_file_says_what_it_is() {
    hold(unopened(&tree()));
}

#[test]
fn no_file_holds_too_much() {
    hold(too_long(&tree()));
}

#[test]
fn modules_are_named_after_what_is_in_them() {
    hold(mod_files(&tree()));
}

#[test]
fn comments_are_wrapped() {
    hold(wide_comments(&tree()));
}

#[test]
fn the_shape_of_a_file_is_checked() {
    assert_eq!(count(unopened, "src/a.rs", "use std::fs;\n//! late"), 1);
    assert_eq!(count(unopened, "src/a.rs", "//! A."), 0);
    assert_eq!(count(too_long, "src/a.rs", &"\n".repeat(501)), 1);
    assert_eq!(count(too_long, "crates/x/tests/a.rs", &"\n".repeat(501)), 0);
    assert_eq!(count(too_long, "tests/a.rs", &"\n".repeat(801)), 1);
    assert_eq!(count(mod_files, "src/a/mod.rs", ""), 1);
    let wide = "a ".repeat(60);
    assert_eq!(count(wide_comments, "src/a.rs", &format!("//! {wide}\n    // {wide}\n")), 2);
    let exempt = format!("/// ```text\n/// {wide}\n/// ```\n/// | {wide} |\nf(r\"\n// {wide}\n\"); // {wide}\n");
    assert_eq!(count(wide_comments, "src/a.rs", &exempt), 0);
}
