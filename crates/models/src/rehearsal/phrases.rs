//! Reading plain English piece by piece: quotes, words, paths, places and polite phrases.
//!
//! Pure functions over `&str` that know nothing of directions. Each returns what it read and what
//! follows. Letters are compared as ASCII only, because lower-casing other scripts may change their
//! length and so spoil every offset.

/// The pairs of opening and closing quotation marks.
const QUOTES: [(char, char); 6] = [('"', '"'), ('`', '`'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('«', '»')];

/// The longest quotation in bytes. Without a limit, a prompt full of opening quotes would cost
/// quadratic time. Longer texts go into a fence.
const LONGEST_QUOTATION: usize = 4096;

/// Polite phrases that may open a direction, in any number.
const OPENINGS: [&str; 29] = [
    "please",
    "kindly",
    "can you",
    "could you",
    "would you",
    "will you",
    "can we",
    "i want you to",
    "i'd like you to",
    "i would like you to",
    "go ahead and",
    "let's",
    "lets",
    "now",
    "first",
    "second",
    "third",
    "next",
    "also",
    "finally",
    "after that",
    "just",
    "and",
    "then",
    "ok",
    "okay",
    "hi",
    "hey",
    "hello",
];

const CLOSINGS: [&str; 4] = ["please", "for me", "thanks", "thank you"];

/// Files that people name without an extension.
const BARE_FILES: [&str; 5] = ["makefile", "dockerfile", "justfile", "readme", "license"];

const DETERMINERS: [&str; 7] = ["the", "this", "my", "our", "current", "working", "whole"];

const GENERIC_PLACES: [&str; 11] =
    ["folder", "directory", "dir", "project", "workspace", "repo", "repository", "root", "codebase", "code", "files"];

/// Returns the text inside the quotes or the fence at the start of `text`, and the rest.
pub(super) fn quoted(text: &str) -> Option<(&str, &str)> {
    if text.starts_with("```") {
        return Some(fenced(text));
    }
    let opener = text.chars().next()?;
    let (_, closer) = QUOTES.into_iter().find(|(open, _)| *open == opener)?;
    let inside = &text[opener.len_utf8()..];
    let end = inside.match_indices(closer).take_while(|(at, _)| *at <= LONGEST_QUOTATION).find_map(|(at, _)| {
        let rest = &inside[at + closer.len_utf8()..];
        // A letter after the mark makes it an apostrophe, or the opening of another quotation.
        (!rest.starts_with(char::is_alphanumeric)).then_some(at)
    })?;
    Some((&inside[..end], &inside[end + closer.len_utf8()..]))
}

/// Returns the lines of a fenced block. A fence that is never closed extends to the end.
fn fenced(text: &str) -> (&str, &str) {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let (fence, after) = text.split_at(ticks);
    // A fence on a single line is a quotation; on several lines, the first line names a language.
    let first_line = after.split('\n').next().unwrap_or_default();
    if let Some(end) = first_line.find(fence) {
        return (&after[..end], &after[end + ticks..]);
    }
    let inside = after.get(first_line.len() + 1..).unwrap_or_default();
    let mut at = 0;
    for line in inside.split_inclusive('\n') {
        if line.trim_start().starts_with(fence) {
            let rest = line.trim_start().trim_start_matches('`').len();
            return (&inside[..at], &inside[at + line.len() - rest..]);
        }
        at += line.len();
    }
    (inside, "")
}

/// One word or one quotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) quoted: bool,
}

impl Token<'_> {
    pub(super) fn is(&self, word: &str) -> bool {
        !self.quoted && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether a person who writes this among other words means a file or a folder.
    pub(super) fn looks_like_path(&self) -> bool {
        let bare = BARE_FILES.iter().any(|name| self.is(name));
        let dotted = self.text.char_indices().any(|(at, letter)| {
            letter == '.' && self.text[at + 1..].starts_with(|next: char| next.is_alphanumeric() || next == '.')
        });
        self.quoted || bare || dotted || self.text == "." || self.text.starts_with('~') || self.text.contains('/')
    }

    /// Whether it is a bare file name with a short extension, such as `main.rs`.
    pub(super) fn looks_like_file(&self) -> bool {
        let name = self.text.rsplit('/').next().unwrap_or_default();
        let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
        extension.is_some_and(|extension| {
            (1..=5).contains(&extension.len()) && extension.chars().all(|letter| letter.is_ascii_alphanumeric())
        })
    }
}

/// Returns the next word without its trailing punctuation, or the next quotation.
pub(super) fn token(text: &str) -> Option<(Token<'_>, &str)> {
    let text = text.trim_start();
    if let Some((inside, rest)) = quoted(text) {
        return Some((Token { text: inside, quoted: true }, rest));
    }
    let word = text.split_whitespace().next()?;
    let bare = word.trim_end_matches([',', ';', ':', '!', '?']);
    let bare = bare.strip_suffix('.').filter(|stem| !stem.is_empty() && !stem.ends_with(['.', '/'])).unwrap_or(bare);
    // A word of only punctuation stays whole, so that the parser always advances.
    let bare = if bare.is_empty() { word } else { bare };
    // `@main.rs` is how people attach a file in a terminal.
    let attached = bare.strip_prefix('@').map(|text| Token { text, quoted: false }).filter(Token::looks_like_file);
    Some((attached.unwrap_or(Token { text: bare, quoted: false }), &text[bare.len()..]))
}

/// Skips `phrase` if the text starts with it as whole words.
pub(super) fn skip<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let text = text.trim_start();
    let head = text.get(..phrase.len())?;
    let rest = &text[phrase.len()..];
    (head.eq_ignore_ascii_case(phrase) && !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
        .then_some(rest)
}

/// Skips any of the phrases, repeatedly.
pub(super) fn skip_all<'a>(text: &'a str, phrases: &[&str]) -> &'a str {
    let mut text = text;
    while let Some(rest) = skip_one(text, phrases) {
        text = rest;
    }
    text
}

/// Skips one of the phrases.
pub(super) fn skip_one<'a>(text: &'a str, phrases: &[&str]) -> Option<&'a str> {
    phrases.iter().find_map(|phrase| skip(text, phrase).filter(|rest| is_boundary(rest)))
}

/// Whether a phrase may end here. Otherwise its last word starts a path such as `in/there` or
/// `first.txt`.
fn is_boundary(rest: &str) -> bool {
    let mut next = rest.chars();
    match next.next() {
        Some('/' | '-' | '\'' | '’') => false,
        Some('.') => !next.next().is_some_and(char::is_alphanumeric),
        Some(_) | None => true,
    }
}

/// Removes the bullet, the number and the polite phrases around the direction's verb.
pub(super) fn without_courtesy(text: &str) -> &str {
    let mut text = without_bullet(text.trim());
    let mut question = false;
    while let Some((opening, rest)) = OPENINGS.iter().find_map(|opening| Some((opening, skip_one(text, &[opening])?))) {
        question |= opening.ends_with(" you") || opening.ends_with(" we");
        text = rest.trim_start_matches([',', '!', ':', '.', ' ', '\n', '\t']);
    }
    if question { text.trim_end_matches(['?', ' ']) } else { text }
}

fn without_bullet(text: &str) -> &str {
    let numbered = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if numbered.len() < text.len()
        && let Some(rest) = numbered.strip_prefix(". ").or_else(|| numbered.strip_prefix(") "))
    {
        return rest.trim_start();
    }
    ["- [ ] ", "- ", "* ", "• "].iter().find_map(|bullet| text.strip_prefix(bullet)).unwrap_or(text).trim_start()
}

/// Removes "please" and the like from the end of a text.
pub(super) fn without_closing(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(rest) = CLOSINGS.iter().find_map(|closing| strip_closing(text, closing)) {
        text = rest;
    }
    text
}

fn strip_closing<'a>(text: &'a str, closing: &str) -> Option<&'a str> {
    let bare = text.trim_end_matches(['.', '!', '?', ' ']);
    let at = bare.len().checked_sub(closing.len())?;
    let tail = bare.get(at..)?;
    let head = &bare[..at];
    (tail.eq_ignore_ascii_case(closing) && head.ends_with([' ', ','])).then(|| head.trim_end_matches([',', '.', ' ']))
}

/// Reads a folder: `.` for "this folder", "here" and nothing at all. None if it is not a single
/// place.
pub(super) fn place(text: &str) -> Option<&str> {
    let text = text.trim().trim_end_matches(['?', '!']);
    let nouns = skip_all(text, &DETERMINERS);
    let determined = nouns.len() < text.len();
    let rest = skip_one(nouns, &GENERIC_PLACES).unwrap_or(nouns);
    let nothing_left = rest.trim_end_matches('.').trim().is_empty() && !rest.contains("..");
    if text.is_empty() || (nothing_left && determined) || skip(text, "here").is_some_and(str::is_empty) {
        return Some(".");
    }
    // "the folder src" and "the src folder" are the same place.
    let named = skip_one(nouns, &["folder", "directory"]).filter(|rest| !rest.trim().is_empty()).unwrap_or(nouns);
    let (folder, rest) = token(named)?;
    let rest = skip_one(rest, &["folder", "directory"]).unwrap_or(rest);
    (rest.trim_matches(['.', ' ']).is_empty() && !folder.text.is_empty()).then_some(folder.text)
}

/// Returns the positions of `word` as a whole word outside of quotations, with spaces around it.
pub(super) fn find_words(text: &str, word: &str) -> Vec<usize> {
    open_positions(text)
        .filter(|at| {
            let before = text[..*at].chars().next_back();
            before.is_none_or(char::is_whitespace)
                && skip(&text[*at..], word).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
                && !text[*at..].starts_with(char::is_whitespace)
        })
        .collect()
}

/// Iterates over the positions outside of quotations and fences.
pub(super) fn open_positions(text: &str) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let letter = text[at..].chars().next()?;
            let before = text[..at].chars().next_back();
            let may_open = before.is_none_or(|before| before.is_whitespace() || "([{:=,".contains(before));
            if may_open && let Some((_, rest)) = quoted(&text[at..]) {
                at = text.len() - rest.len();
                continue;
            }
            at += letter.len_utf8();
            return Some(at - letter.len_utf8());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_ends_at_its_own_kind_of_quote() {
        for (text, inside, rest) in [
            ("\"a 'b' c\" d", "a 'b' c", " d"),
            ("'it's here' x", "it's here", " x"),
            ("`ls -l`", "ls -l", ""),
            ("“schön” y", "schön", " y"),
            ("```ls; pwd``` z", "ls; pwd", " z"),
            ("```sh\nls\npwd\n``` z", "ls\npwd\n", " z"),
            ("````\n```\nx\n```\n````", "```\nx\n```\n", ""),
            ("```\nnever closed", "never closed", ""),
            ("```", "", ""),
        ] {
            assert_eq!(quoted(text), Some((inside, rest)), "{text}");
        }
        for text in ["plain", "", "\"open", "'tis so"] {
            assert_eq!(quoted(text), None, "{text}");
        }
    }

    #[test]
    fn a_word_is_stripped_of_punctuation_and_a_path_keeps_its_dots() {
        for (text, word, rest) in [
            (" a.txt, b", "a.txt", ", b"),
            ("a.txt.", "a.txt", "."),
            (".", ".", ""),
            ("..", "..", ""),
            ("src/.", "src/.", ""),
            ("???", "???", ""),
            ("naïve: x", "naïve", ": x"),
            ("@src/a.txt, b", "src/a.txt", ", b"),
            ("@types/node", "@types/node", ""),
        ] {
            assert_eq!(token(text), Some((Token { text: word, quoted: false }, rest)), "{text}");
        }
        assert_eq!(token("  "), None);
    }

    #[test]
    fn courtesy_is_no_part_of_a_direction() {
        for (text, bare) in [
            ("Please, can you read a.txt?", "read a.txt"),
            ("1. First, list src", "list src"),
            ("- [ ] run it", "run it"),
            ("OK. Now then: go", "go"),
            ("is a.txt there?", "is a.txt there?"),
            ("next.txt", "next.txt"),
            ("2 apples", "2 apples"),
        ] {
            assert_eq!(without_courtesy(text), bare, "{text}");
        }
        assert_eq!(without_closing("list src, please. Thanks!"), "list src");
        assert_eq!(without_closing("displease"), "displease");
    }

    #[test]
    fn a_place_is_one_folder_or_this_one() {
        for text in ["", "here", "this folder?", "the current directory.", "my project", "."] {
            assert_eq!(place(text), Some("."), "{text}");
        }
        for text in ["src", "the src folder", "the folder src", "src.", "`src`"] {
            assert_eq!(place(text), Some("src"), "{text}");
        }
        assert_eq!(place("the `my files` directory"), Some("my files"));
        assert_eq!(place("project"), Some("project"));
        assert_eq!(place("a while"), None);
    }

    #[test]
    fn words_inside_quotations_are_not_found() {
        assert_eq!(find_words("a to \"b to c\" TO d", "to"), [2, 14]);
        assert_eq!(find_words("don't go to town", "to"), [9]);
        assert_eq!(find_words("", "to"), Vec::<usize>::new());
    }

    #[test]
    fn paths_are_distinguished_from_words() {
        for text in ["a.txt", ".gitignore", "src/", "~", "..", "./x", "Makefile", "été.md"] {
            assert!(Token { text, quoted: false }.looks_like_path(), "{text}");
        }
        for text in ["how", "poem", "end.", "…"] {
            assert!(!Token { text, quoted: false }.looks_like_path(), "{text}");
        }
        assert!(Token { text: "how", quoted: true }.looks_like_path());
    }
}
