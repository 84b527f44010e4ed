//! Tests of phrasings and their meanings.

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::*;

/// Checks several phrasings of one direction, one per line, so that the table reads like a
/// glossary.
fn check(prompts: &[&str], expected: Expect) {
    let mut table = String::new();
    for prompt in prompts {
        let understanding = understand(prompt);
        let directions: Vec<_> = understanding.directions.iter().map(brief).collect();
        let unclear = understanding.unclear.map(|text| format!("  (unclear: {text:?})")).unwrap_or_default();
        writeln!(table, "{prompt:?} => {}{unclear}", directions.join(" | ")).unwrap();
    }
    expected.assert_eq(&table);
}

fn brief(direction: &Direction) -> String {
    match direction {
        Direction::Look => "look".to_owned(),
        Direction::List { folder } => format!("list {folder:?}"),
        Direction::Read { file } => format!("read {file:?}"),
        Direction::Search { pattern, folder: None, .. } => format!("search {pattern:?}"),
        Direction::Search { pattern, folder: Some(folder), .. } => format!("search {pattern:?} in {folder:?}"),
        Direction::Find { pattern } => format!("find {pattern:?}"),
        Direction::Write { file, content } => format!("write {file:?} {content:?}"),
        Direction::Append { file, content } => format!("append {file:?} {content:?}"),
        Direction::Replace { file, old, new } => format!("replace {file:?} {old:?} -> {new:?}"),
        Direction::Run { command } => format!("run {command:?}"),
    }
}

#[test]
fn questions_and_orders_about_folders_list_them() {
    check(
        &[
            "What files are in this folder?",
            "what's in src?",
            "What is in here?",
            "Which files are there?",
            "list",
            "LIST FILES",
            "list the files in src, please",
            "ls src/bin",
            "list all files in the `my folder` directory",
            "list the folder",
            "list the contents of crates/domain.",
            "show me the files",
            "show everything in docs",
            "Can you list src?",
            "look around",
            "Look into the src folder",
            "list ..",
        ],
        expect![[r#"
            "What files are in this folder?" => list "."
            "what's in src?" => list "src"
            "What is in here?" => list "."
            "Which files are there?" => list "."
            "list" => list "."
            "LIST FILES" => list "."
            "list the files in src, please" => list "src"
            "ls src/bin" => list "src/bin"
            "list all files in the `my folder` directory" => list "my folder"
            "list the folder" => list "."
            "list the contents of crates/domain." => list "crates/domain"
            "show me the files" => list "."
            "show everything in docs" => list "docs"
            "Can you list src?" => list "src"
            "look around" => list "."
            "Look into the src folder" => list "src"
            "list .." => list ".."
        "#]],
    );
}

#[test]
fn files_are_read_by_many_verbs() {
    check(
        &[
            "read README.md",
            "Read the file src/main.rs.",
            "show Makefile",
            "show me the contents of \"my notes.txt\"",
            "open ./a.txt, please",
            "cat a.txt",
            "Could you please open `src/lib.rs`?",
            "what is in Cargo.toml?",
            "look at src/main.rs",
            "read a.txt and b.txt",
            "read a.txt, b.txt, and c/",
            "read a.txt and summarise it",
            "lies résumé.txt",
            "read résumé.txt",
            "read 日本語.md",
            "show src/",
        ],
        expect![[r#"
            "read README.md" => read "README.md"
            "Read the file src/main.rs." => read "src/main.rs"
            "show Makefile" => read "Makefile"
            "show me the contents of \"my notes.txt\"" => read "my notes.txt"
            "open ./a.txt, please" => read "./a.txt"
            "cat a.txt" => read "a.txt"
            "Could you please open `src/lib.rs`?" => read "src/lib.rs"
            "what is in Cargo.toml?" => read "Cargo.toml"
            "look at src/main.rs" => read "src/main.rs"
            "read a.txt and b.txt" => read "a.txt" | read "b.txt"
            "read a.txt, b.txt, and c/" => read "a.txt" | read "b.txt" | list "c/"
            "read a.txt and summarise it" => read "a.txt"
            "lies résumé.txt" => look  (unclear: "lies résumé.txt")
            "read résumé.txt" => read "résumé.txt"
            "read 日本語.md" => read "日本語.md"
            "show src/" => list "src/"
        "#]],
    );
}

#[test]
fn texts_are_searched_for_and_files_found_by_name() {
    check(
        &[
            "search for TODO",
            "search for \"fn main()\" in src",
            "search for once in a while",
            "search src for unsafe code",
            "search the docs folder for `a.b`",
            "find unwrap in this project",
            "find the word naïve in the src folder",
            "grep fn main",
            "grep 'foo|bar' src/",
            "grep -rn foo .",
            "look for Hello in a.txt",
            "where is Session defined?",
            "find *.rs",
            "find all files named Cargo.toml",
            "find main.rs",
            "find files containing TODO in src",
            "find all src/**/*.rs files",
            "search for",
        ],
        expect![[r#"
            "search for TODO" => search "TODO"
            "search for \"fn main()\" in src" => search "fn main\\(\\)" in "src"
            "search for once in a while" => search "once in a while"
            "search src for unsafe code" => search "unsafe code" in "src"
            "search the docs folder for `a.b`" => search "a\\.b" in "docs"
            "find unwrap in this project" => search "unwrap"
            "find the word naïve in the src folder" => search "naïve" in "src"
            "grep fn main" => search "fn main"
            "grep 'foo|bar' src/" => search "foo|bar" in "src/"
            "grep -rn foo ." => run "grep -rn foo ."
            "look for Hello in a.txt" => search "Hello" in "a.txt"
            "where is Session defined?" => search "Session"
            "find *.rs" => find "**/*.rs"
            "find all files named Cargo.toml" => find "**/Cargo.toml"
            "find main.rs" => find "**/main.rs"
            "find files containing TODO in src" => search "TODO" in "src"
            "find all src/**/*.rs files" => find "src/**/*.rs"
            "search for" => look  (unclear: "search for")
        "#]],
    );
}

#[test]
fn files_are_written_in_words_quotes_and_fences() {
    check(
        &[
            "write hello.txt with Hello there",
            "Create notes.md containing one; two; three",
            "create a new file called a.txt with the text \"Hi; then bye\"",
            "write 'Hello World' to out/hello.txt",
            "write hello to a.txt.",
            "save `x = 1` as config.toml",
            "put ünïcödé into ü.txt",
            "create empty.txt",
            "create a file named `my file.txt`",
            "write a.txt:\nline one\nline two",
            "create src/lib.rs with:\n```rust\nfn main() {\n    run();\n}\n```",
            "write a.txt \"quoted\"",
            "write a.txt",
            "write a.txt with",
            "write a poem about cats",
            "create a folder",
        ],
        expect![[r#"
            "write hello.txt with Hello there" => write "hello.txt" "Hello there\n"
            "Create notes.md containing one; two; three" => write "notes.md" "one; two; three\n"
            "create a new file called a.txt with the text \"Hi; then bye\"" => write "a.txt" "Hi; then bye\n"
            "write 'Hello World' to out/hello.txt" => write "out/hello.txt" "Hello World\n"
            "write hello to a.txt." => write "a.txt" "hello\n"
            "save `x = 1` as config.toml" => write "config.toml" "x = 1\n"
            "put ünïcödé into ü.txt" => write "ü.txt" "ünïcödé\n"
            "create empty.txt" => write "empty.txt" ""
            "create a file named `my file.txt`" => write "my file.txt" ""
            "write a.txt:\nline one\nline two" => write "a.txt" "line one\nline two\n"
            "create src/lib.rs with:\n```rust\nfn main() {\n    run();\n}\n```" => write "src/lib.rs" "fn main() {\n    run();\n}\n"
            "write a.txt \"quoted\"" => write "a.txt" "quoted\n"
            "write a.txt" => look  (unclear: "write a.txt")
            "write a.txt with" => look  (unclear: "write a.txt with")
            "write a poem about cats" => look  (unclear: "write a poem about cats")
            "create a folder" => look  (unclear: "create a folder")
        "#]],
    );
}

#[test]
fn files_are_changed_in_place() {
    check(
        &[
            "append Goodbye to hello.txt",
            "add the line \"x to y\" to list.md",
            "append to log.txt: done; over",
            "append to log.txt:\n```\na\nb\n```",
            "add tests to the project",
            "replace foo with bar in src/lib.rs",
            "Replace \"a in b\" by 'c with d' in `x y.txt`.",
            "change one to two in n.txt",
            "rename the word café to bar in menu.txt",
            "in a.txt, replace x with y",
            "edit a.txt: change 1 to 2",
            "edit a.txt and replace \"foo bar\" with \"\"",
            "replace foo with bar",
            "replace everything",
        ],
        expect![[r#"
            "append Goodbye to hello.txt" => append "hello.txt" "Goodbye\n"
            "add the line \"x to y\" to list.md" => append "list.md" "x to y\n"
            "append to log.txt: done; over" => append "log.txt" "done; over\n"
            "append to log.txt:\n```\na\nb\n```" => append "log.txt" "a\nb\n"
            "add tests to the project" => look  (unclear: "add tests to the project")
            "replace foo with bar in src/lib.rs" => replace "src/lib.rs" "foo" -> "bar"
            "Replace \"a in b\" by 'c with d' in `x y.txt`." => replace "x y.txt" "a in b" -> "c with d"
            "change one to two in n.txt" => replace "n.txt" "one" -> "two"
            "rename the word café to bar in menu.txt" => replace "menu.txt" "café" -> "bar"
            "in a.txt, replace x with y" => replace "a.txt" "x" -> "y"
            "edit a.txt: change 1 to 2" => replace "a.txt" "1" -> "2"
            "edit a.txt and replace \"foo bar\" with \"\"" => replace "a.txt" "foo bar" -> ""
            "replace foo with bar" => look  (unclear: "replace foo with bar")
            "replace everything" => look  (unclear: "replace everything")
        "#]],
    );
}

#[test]
fn commands_are_run_as_they_are_typed() {
    check(
        &[
            "run cargo test",
            "run `ls -l`",
            "Execute the command: make all",
            "execute the following command:\n```sh\ncd src\nls\n```",
            "$ ls; pwd then what",
            "$ ls\n$ pwd",
            "run ls; pwd",
            "run echo \"a; then b\"",
            "can you run cargo test?",
            "run cargo test, please.",
            "run ls .",
            "ls -la",
            "find . -name '*.rs'",
            "run the tests",
            "run",
            "run ``",
        ],
        expect![[r#"
            "run cargo test" => run "cargo test"
            "run `ls -l`" => run "ls -l"
            "Execute the command: make all" => run "make all"
            "execute the following command:\n```sh\ncd src\nls\n```" => run "cd src\nls"
            "$ ls; pwd then what" => run "ls; pwd then what"
            "$ ls\n$ pwd" => run "ls" | run "pwd"
            "run ls; pwd" => run "ls; pwd"
            "run echo \"a; then b\"" => run "echo \"a; then b\""
            "can you run cargo test?" => run "cargo test"
            "run cargo test, please." => run "cargo test"
            "run ls ." => run "ls ."
            "ls -la" => run "ls -la"
            "find . -name '*.rs'" => run "find . -name '*.rs'"
            "run the tests" => look  (unclear: "run the tests")
            "run" => look  (unclear: "run")
            "run ``" => look  (unclear: "run ``")
        "#]],
    );
}

#[test]
fn one_prompt_may_hold_several_directions() {
    check(
        &[
            "read a.txt then read b.txt",
            "First list src, and then run cargo test; finally read Cargo.toml.",
            "- write a.txt with Hi\n- read a.txt\n- run cat a.txt",
            "1. list\n2. search for x",
            "Hello!\n\nread a.txt\nthanks",
            "Fix the bug, then run cargo test",
            "list src\n\nwrite b.txt with:\n```\nread c.txt\n```\nread b.txt",
            "run:\n```\nls\n```\nthen list",
            ";;; \n then ;",
        ],
        expect![[r#"
            "read a.txt then read b.txt" => read "a.txt" | read "b.txt"
            "First list src, and then run cargo test; finally read Cargo.toml." => list "src" | run "cargo test" | read "Cargo.toml"
            "- write a.txt with Hi\n- read a.txt\n- run cat a.txt" => write "a.txt" "Hi\n" | read "a.txt" | run "cat a.txt"
            "1. list\n2. search for x" => list "." | search "x"
            "Hello!\n\nread a.txt\nthanks" => read "a.txt"  (unclear: "Hello!")
            "Fix the bug, then run cargo test" => run "cargo test"  (unclear: "Fix the bug")
            "list src\n\nwrite b.txt with:\n```\nread c.txt\n```\nread b.txt" => list "src" | write "b.txt" "read c.txt\n" | read "b.txt"
            "run:\n```\nls\n```\nthen list" => run "ls" | list "."
            ";;; \n then ;" => look  (unclear: ";;; \n then ;")
        "#]],
    );
}

#[test]
fn unknown_directions_are_reported() {
    check(
        &[
            "",
            "   \n",
            "hello",
            "Explain how this works",
            "show me how this works",
            "read this",
            "what is the meaning of life?",
            "\"\"",
            "```",
            "🦀",
            "then",
            "İİİ in İ",
            "please",
        ],
        expect![[r#"
            "" => look
            "   \n" => look
            "hello" => look  (unclear: "hello")
            "Explain how this works" => look  (unclear: "Explain how this works")
            "show me how this works" => look  (unclear: "show me how this works")
            "read this" => look  (unclear: "read this")
            "what is the meaning of life?" => look  (unclear: "what is the meaning of life?")
            "\"\"" => look  (unclear: "\"\"")
            "```" => look  (unclear: "```")
            "🦀" => look  (unclear: "🦀")
            "then" => look  (unclear: "then")
            "İİİ in İ" => look  (unclear: "İİİ in İ")
            "please" => look  (unclear: "please")
        "#]],
    );
}

#[test]
fn a_very_long_prompt_is_not_taken_for_a_direction() {
    let long = "write a.txt with ".to_owned() + &"x ".repeat(LONGEST_PROMPT);
    assert_eq!(understand(&long).directions, [Direction::Look]);
}

#[test]
fn a_long_prompt_full_of_opening_quotes_is_read_in_time() {
    let quotes = "'a “b «c ; ".repeat(LONGEST_PROMPT / 20);
    assert_eq!(understand(&quotes).directions, [Direction::Look]);
}

/// A stand-in for a property test: prompts that are cut at many characters must parse without a
/// panic.
#[test]
fn every_fragment_of_a_prompt_is_read_without_a_panic() {
    let whole = "Please, can you «write» “ü.txt” with:\n```rs\nfn f() {}\n```\nthen run `ls; 'x'`; in ‘é f.md’, replace ß with İ then \
                 search for \"a\" in .. ; $ echo 'no'\n- append \u{301}x to y.z… ? then find *.🦀 files; look at ~/ ... where is x? 1) list";
    let cuts: Vec<usize> = whole.char_indices().map(|(at, _)| at).chain([whole.len()]).collect();
    for (index, &from) in cuts.iter().enumerate() {
        for &to in cuts[index..].iter().step_by(7) {
            assert!(!understand(&whole[from..to]).directions.is_empty());
        }
    }
}
