//! Names of code in comments and pages: they exist, and they are marked as code.
//!
//! A rename that forgets a comment leaves a name there that no longer exists. One that replaces
//! words without looking leaves an identifier in the middle of a sentence.

use std::collections::BTreeSet;

use crate::source::{File, comment_lines, file, hold, is_name, tree};

/// Names of other programs and libraries that no code of ours uses.
const FOREIGN: [&str; 10] = [
    "ACPD__SESSION__MODE",
    "ChatContentText",
    "ChatToolMessage",
    "HTTPValidationError",
    "ResponseOutputMessage",
    "exit_reservation",
    "io_uring",
    "mcp__SERVER__TOOL",
    "pause_turn",
    "sun_path",
];

/// The pages about the code. The others name much that belongs to editors, providers and servers.
const PAGES: [&str; 3] = ["CONTRIBUTING.md", "docs/architecture.md", "docs/tour.md"];

/// The lines that are prose: comments, and the lines of the pages outside fences.
fn prose(file: &File) -> Vec<(usize, &str)> {
    let lines = match file.is_rust() {
        true => comment_lines(&file.text),
        false if PAGES.contains(&file.path.as_str()) => (1..).zip(file.text.lines()).collect(),
        false => Vec::new(),
    };
    let mut is_fenced = false;
    let is_prose = |line: &&(usize, &str)| {
        let is_fence = line.1.trim_start_matches(['/', '!', ' ']).starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    };
    lines.iter().filter(is_prose).copied().collect()
}

/// Every word of the code, including its strings, and of all other files that are not pages.
fn words(files: &[File]) -> BTreeSet<&str> {
    let mut words = BTreeSet::new();
    for file in files.iter().filter(|file| !file.path.ends_with(".md")) {
        let comments: BTreeSet<usize> = match file.is_rust() {
            true => comment_lines(&file.text).into_iter().map(|(number, _)| number).collect(),
            false => BTreeSet::new(),
        };
        // The list of foreign names must not make them known.
        let lines = (1..).zip(file.text.lines()).filter(|_| file.path != "tests/tidy/names.rs");
        let code = lines.filter(|(number, _)| !comments.contains(number));
        words.extend(code.flat_map(|(_, line)| line.split(|letter| !is_name(letter))));
    }
    words
}

/// Whether a piece of marked text is a name that rustc would take: `TurnInput`, `start_turn`,
/// `Machine::step`. Single lower-case words are often commands or values.
fn is_identifier(text: &str) -> bool {
    let humps = text.chars().zip(text.chars().skip(1)).filter(|(a, b)| a.is_lowercase() && b.is_uppercase());
    let starts_like_a_type = text.starts_with(char::is_uppercase);
    let is_compound = text.contains('_') || text.contains("::") || (starts_like_a_type && humps.count() > 0);
    is_compound && text.chars().all(|letter| is_name(letter) || letter == ':')
}

fn unknown_names(files: &[File]) -> Vec<String> {
    let words = words(files);
    let is_known = |part: &str| words.contains(part) || FOREIGN.contains(&part);
    let mut complaints = Vec::new();
    for file in files {
        for (number, line) in prose(file) {
            let marked = line.split('`').skip(1).step_by(2).map(|text| text.trim_end_matches("()"));
            let unknown = marked.filter(|text| is_identifier(text) && !text.split("::").all(is_known));
            complaints.extend(unknown.map(|name| format!("{}:{number}: no code contains `{name}`", file.path)));
        }
    }
    complaints
}

/// Names such as `start_turn` that stand among the words of a comment without marks. Constants of
/// the system may: nobody takes them for words.
fn unmarked_names(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (number, line) in prose(file) {
            let plain: Vec<&str> = line.split('`').step_by(2).collect();
            let plain = plain.join("`");
            let words = plain.split([' ', '(', ')', ',']).map(|word| word.trim_end_matches(['.', ':', ';', '?']));
            let is_bare =
                |word: &&str| word.contains('_') && word.starts_with(char::is_lowercase) && word.chars().all(is_name);
            let is_inside_quotes = |word: &str| plain.split('"').skip(1).step_by(2).any(|quoted| quoted.contains(word));
            let bare = words.filter(is_bare).filter(|word| !is_inside_quotes(word));
            complaints.extend(bare.map(|name| format!("{}:{number}: say `{name}` or write words", file.path)));
        }
    }
    complaints
}

#[test]
fn what_comments_name_exists() {
    hold(unknown_names(&tree()));
}

#[test]
fn names_in_comments_are_marked() {
    hold(unmarked_names(&tree()));
}

#[test]
fn names_that_do_not_exist_are_found() {
    let code = file("src/a.rs", "struct TurnInput;\nfn start_turn() { f(\"json_key\") }\n");
    let check = |comment: &str| {
        let commented = file("src/b.rs", &format!("//! {comment}\n"));
        unknown_names(&[code.clone(), commented]).len()
    };
    assert_eq!(check("`TurnInput`, `TurnInput::start_turn()`, `json_key`, `cargo build`, `true` and `sun_path`"), 0);
    assert_eq!(check("`TurnOrder`"), 1);
    assert_eq!(check("`TurnInput::end_turn` and `end_turn()`"), 2);
    assert_eq!(check("```text\n//! `TurnOrder`\n//! ```"), 0);
    let page = |path: &str| unknown_names(&[code.clone(), file(path, "`TurnOrder`\n")]).len();
    assert_eq!((page("docs/tour.md"), page("docs/protocol.md")), (1, 0));
}

#[test]
fn names_without_marks_are_found() {
    let check = |comment: &str| unmarked_names(&[file("src/b.rs", &format!("/// {comment}\n"))]).len();
    assert_eq!(check("The models, the preferred_model first."), 1);
    assert_eq!(check("Returns whether anything was adjusted_for."), 1);
    assert_eq!(check("The `preferred_model`, \"a_b\", [`a_b`](c_d.rs) and /a_b/c_d."), 0);
}
