//! The verbs that change files: write, create, append, replace.
//!
//! The new content may be in quotes, in a fence, or the plain rest of the direction. The name of a
//! file to change must look like a file name, so that "write a poem" does not create a file "a".

use crate::rehearsal::directions::Direction;
use crate::rehearsal::phrases::{self, Token};

const FILE_ARTICLES: [&str; 9] = ["a", "an", "the", "new", "empty", "text", "file", "named", "called"];
const CONTENT_WORDS: [&str; 14] = [
    "with the following content",
    "with the following",
    "with the contents",
    "with the content",
    "with the text",
    "with contents",
    "with content",
    "with text",
    "with",
    "containing",
    "that contains",
    "that says",
    "saying",
    "which says",
];
const TEXT_ARTICLES: [&str; 6] = ["the text", "the line", "the lines", "the words", "a line saying", "a line"];

/// "Write a.txt with hello", "write hello to a.txt", "write a.txt:" and a fence.
pub(in crate::rehearsal) fn write(rest: &str) -> Option<Direction> {
    let (file, content) = file_then_content(rest).or_else(|| content_then_file(rest, &["to", "into", "in", "as"]))?;
    some_lines(content?).map(|content| Direction::Write { file: file.to_owned(), content })
}

/// Like `write`, but a file may also be created empty.
pub(in crate::rehearsal) fn create(rest: &str) -> Option<Direction> {
    let (file, content) = file_then_content(rest)?;
    Some(Direction::Write { file: file.to_owned(), content: lines(content.unwrap_or_default()) })
}

/// "Append hello to a.txt", "append to a.txt: hello".
pub(in crate::rehearsal) fn append(rest: &str) -> Option<Direction> {
    let (file, content) = match phrases::skip_one(rest, &["to"]) {
        Some(file) => file_then_content(file)?,
        None => content_then_file(phrases::skip_one(rest, &TEXT_ARTICLES).unwrap_or(rest), &["to"])?,
    };
    some_lines(content?).map(|content| Direction::Append { file: file.to_owned(), content })
}

/// "Replace x with y in a.txt". `links` are the words between old and new.
pub(in crate::rehearsal) fn replace(rest: &str, links: &[&str]) -> Option<Direction> {
    let at = phrases::find_words(rest, "in").into_iter().next_back()?;
    let (file, after) = file_name(phrases::skip(&rest[at..], "in")?)?;
    if !after.trim_matches(['.', '?', '!', ' ', '\n']).is_empty() {
        return None;
    }
    replacement(&rest[..at], links, file)
}

/// "In a.txt, replace x with y", "edit a.txt: change x to y".
pub(in crate::rehearsal) fn within(rest: &str) -> Option<Direction> {
    let (file, after) = file_name(rest)?;
    let after = phrases::skip_all(after.trim_start_matches([',', ':', ' ']), &["and", "to", "please"]);
    let with = |text| replacement(text, &["with", "by"], file);
    let to = |text| replacement(text, &["to", "into"], file);
    let replaced = phrases::skip_one(after, &["replace", "substitute"]).and_then(with);
    replaced.or_else(|| phrases::skip_one(after, &["change", "rename"]).and_then(to))
}

fn replacement(text: &str, links: &[&str], file: &str) -> Option<Direction> {
    let articles = ["the word", "the text", "the string", "the line", "all occurrences of", "every occurrence of"];
    let text = phrases::skip_one(text, &articles).unwrap_or(text).trim();
    let at = links.iter().flat_map(|link| phrases::find_words(text, link)).min()?;
    let old = unquoted(&text[..at]);
    let new = unquoted(phrases::skip_one(&text[at..], links)?);
    (!old.is_empty()).then(|| Direction::Replace { file: file.to_owned(), old: old.to_owned(), new: new.to_owned() })
}

/// Reads a file's name, and its content if a word, a colon or a fence announces one.
fn file_then_content(text: &str) -> Option<(&str, Option<&str>)> {
    let (file, after) = file_name(text)?;
    let colon = after.trim_start().starts_with(':');
    let rest = after.trim_start_matches([':', ',', ' ']);
    if let Some(content) = phrases::skip_one(rest, &CONTENT_WORDS) {
        return Some((file, Some(content.trim_start_matches(':'))));
    }
    if colon || phrases::quoted(rest.trim_start()).is_some() {
        return Some((file, Some(rest)));
    }
    rest.trim_matches(['.', '?', '!', ' ', '\n']).is_empty().then_some((file, None))
}

/// Reads content, and the file after the last of the `links`.
fn content_then_file<'a>(text: &'a str, links: &[&str]) -> Option<(&'a str, Option<&'a str>)> {
    let at = links.iter().flat_map(|link| phrases::find_words(text, link)).max()?;
    let (file, after) = file_name(phrases::skip_one(&text[at..], links)?)?;
    let content = text[..at].trim();
    let nothing_after = after.trim_matches(['.', '?', '!', ' ', '\n']).is_empty();
    (nothing_after && !content.is_empty()).then_some((file, Some(content)))
}

/// Reads the name of a file, with or without "a new file called".
fn file_name(text: &str) -> Option<(&str, &str)> {
    let (file, after): (Token<'_>, _) = phrases::token(phrases::skip_all(text, &FILE_ARTICLES))?;
    (file.looks_like_path() && !file.text.trim().is_empty() && !file.text.contains('\n')).then_some((file.text, after))
}

/// Converts a text to the lines of a file: without its quotes, and with a final newline.
fn lines(text: &str) -> String {
    let text = text.trim_start_matches([' ', '\n']).trim_end();
    let mut lines = unquoted(text).to_owned();
    if !lines.is_empty() && !lines.ends_with('\n') {
        lines.push('\n');
    }
    lines
}

/// Like `lines`, but returns None for empty text, which would empty the file.
fn some_lines(text: &str) -> Option<String> {
    Some(lines(text)).filter(|lines| !lines.is_empty())
}

/// Removes quotes that surround the whole text.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    match phrases::quoted(text) {
        Some((inside, rest)) if rest.trim_matches(['.', ' ', '\n']).is_empty() => inside,
        Some(_) | None => text,
    }
}
