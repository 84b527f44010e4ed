//! Parses what may follow each verb of a direction.
//!
//! There is one function per verb. It takes the text after the verb and returns None where a
//! program could only guess. `verbs::edits` has the verbs that change files. Pure, and independent
//! of tools.

mod edits;

use super::directions::Direction;
use super::phrases::{self, Token};

pub(super) use edits::{append, create, replace, within, write};

const FILE_NOUNS: [&str; 12] = [
    "me",
    "all",
    "of",
    "the",
    "files",
    "file names",
    "folders",
    "names",
    "contents",
    "content",
    "entries",
    "everything",
];
const PREPOSITIONS: [&str; 7] = ["in", "of", "inside", "from", "under", "at", "within"];
/// Words that refer to something mentioned before, which this parser does not track.
const PRONOUNS: [&str; 7] = ["it", "this", "that", "them", "these", "those", "me"];

/// Reads a command as typed at a shell prompt.
pub(super) fn shell(text: &str) -> Option<Direction> {
    let command = text.strip_prefix("$ ").unwrap_or(text);
    command_line(command.lines().next()?)
}

pub(super) fn run(rest: &str) -> Option<Direction> {
    let article = phrases::skip_all(rest, &["the", "this", "following", "a", "my", "all"]);
    let noun = phrases::skip_all(article, &["shell command", "shell commands", "command", "commands"]);
    let named = noun.len() < article.len() || noun.trim_start().starts_with(':');
    let command = noun.trim_start_matches([':', ' ', '\n', '\t']);
    if let Some((inside, _)) = phrases::quoted(command) {
        return command_line(inside);
    }
    // "Run the tests" names no command, and this parser does not guess one.
    if article.len() < rest.len() && !named {
        return None;
    }
    let line = phrases::without_closing(command.lines().next()?);
    let bare = line.strip_suffix('.').filter(|head| head.ends_with(char::is_alphanumeric)).unwrap_or(line);
    command_line(bare)
}

fn command_line(text: &str) -> Option<Direction> {
    let command = text.trim();
    (!command.is_empty()).then(|| Direction::Run { command: command.to_owned() })
}

pub(super) fn list(rest: &str) -> Option<Direction> {
    let line = phrases::without_closing(rest.lines().next().unwrap_or_default());
    let nouns = phrases::skip_all(line, &FILE_NOUNS);
    let folder = phrases::skip_one(nouns, &PREPOSITIONS).unwrap_or(nouns);
    // "The folder" is a place only together with its article, which is a filler elsewhere.
    let here = phrases::place(line).filter(|place| *place == ".");
    here.or_else(|| phrases::place(folder)).map(list_of)
}

fn list_of(folder: &str) -> Direction {
    Direction::List { folder: folder.to_owned() }
}

/// "Show the files" lists; "show a.txt" reads.
pub(super) fn show(rest: &str) -> Vec<Direction> {
    let object = phrases::skip_all(rest, &["me", "all", "the"]);
    let listing =
        ["files", "folders", "everything", "folder", "directory", "contents of this", "contents of the folder"];
    let found = phrases::skip_one(object, &listing).and_then(|_| list(rest));
    found.map_or_else(|| read(rest), |list| vec![list])
}

pub(super) fn read(rest: &str) -> Vec<Direction> {
    let line = phrases::without_closing(rest.lines().next().unwrap_or_default());
    let fillers = ["me", "the", "file", "files", "contents", "content", "of", "up", "text", "my"];
    let Some((first, mut after)) = phrases::token(phrases::skip_all(line, &fillers)) else { return Vec::new() };
    let alone = after.trim_matches(['.', '?', '!', ' ']).is_empty();
    if first.text.is_empty() || PRONOUNS.iter().any(|word| first.is(word)) || !(alone || first.looks_like_path()) {
        return Vec::new();
    }
    let mut directions = vec![read_or_list(first)];
    // More files may follow after commas and "and".
    while after.starts_with([',', ' '])
        && let Some((next, rest)) = phrases::token(phrases::skip_all(after.trim_start_matches([',', ' ']), &["and"]))
        && next.looks_like_path()
    {
        directions.push(read_or_list(next));
        after = rest;
    }
    directions
}

fn read_or_list(path: Token<'_>) -> Direction {
    if path.text.ends_with('/') || path.text == "." || path.text == ".." {
        list_of(path.text)
    } else {
        Direction::Read { file: path.text.to_owned() }
    }
}

/// "What files are in this folder?", "what is in a.txt?", "what's here?"
pub(super) fn ask(rest: &str) -> Option<Direction> {
    let line = rest.lines().next()?;
    let nouns = phrases::skip_all(line, &["other", "files", "file", "folders", "and", "contents", "things"]);
    let are = phrases::skip_all(nouns, &["is", "are", "there", "do we have", "do i have", "do you see", "exist"]);
    let rest = are.trim_matches(['?', ' ', '.']);
    if phrases::skip(rest, "here").is_some_and(str::is_empty) || (rest.is_empty() && nouns.len() < line.len()) {
        return Some(list_of("."));
    }
    let place = phrases::skip_one(rest, &["in", "inside", "under", "within"])?;
    let file = phrases::token(phrases::skip_all(place, &["the file", "file"]))?;
    if file.0.looks_like_file() && file.1.trim().is_empty() {
        return Some(read_or_list(file.0));
    }
    phrases::place(place).map(list_of)
}

/// "Look for x", "look at a.txt", "look around".
pub(super) fn look(rest: &str) -> Option<Direction> {
    if let Some(text) = phrases::skip_one(rest, &["for"]) {
        return text_in_place(text);
    }
    let line = phrases::without_closing(rest.lines().next().unwrap_or_default());
    let object = phrases::skip_all(line, &["around", "at", "into", "inside", "in", "the file"]);
    match phrases::token(object) {
        Some((path, after)) if path.looks_like_file() && after.trim().is_empty() => Some(read_or_list(path)),
        Some(_) | None => phrases::place(object).map(list_of),
    }
}

/// "Search for x in src", "search src for x".
pub(super) fn search(rest: &str) -> Option<Direction> {
    if let Some(text) = phrases::skip_one(rest, &["for"]) {
        return text_in_place(text);
    }
    let line = rest.lines().next()?;
    if let Some(&at) = phrases::find_words(line, "for").first() {
        let place = phrases::skip_one(&line[..at], &PREPOSITIONS).unwrap_or(&line[..at]);
        let (text, _) = unquote(phrases::skip(&line[at..], "for")?);
        return phrases::place(place).and_then(|folder| searching(text, Some(folder)));
    }
    text_in_place(rest)
}

/// Reads a search as at a shell: the pattern is a regular expression, and a bare folder may follow
/// it.
pub(super) fn grep(rest: &str) -> Option<Direction> {
    let line = phrases::without_closing(rest.lines().next()?);
    let line = phrases::skip_one(line, &["for"]).unwrap_or(line);
    let (pattern, after) = phrases::token(line)?;
    let folder = match phrases::token(after) {
        Some((second, end)) if second.looks_like_path() && end.trim().is_empty() => Some(second.text),
        Some(_) | None => None,
    };
    let (text, folder) = match folder {
        Some(_) => (pattern.text, folder),
        None => split_place(line),
    };
    searching_for(text, text.trim().to_owned(), folder)
}

/// Reads a search for text, unless the text is clearly the name of a file.
pub(super) fn find(rest: &str) -> Option<Direction> {
    let line = phrases::without_closing(rest.lines().next()?);
    let object = phrases::skip_all(line, &["me", "all", "every", "the", "any"]);
    if let Some(files) = phrases::skip_one(object, &["files", "file"]) {
        if let Some(text) = phrases::skip_one(files, &["containing", "that contain", "with the text", "that mention"]) {
            return text_in_place(text);
        }
        let name = phrases::skip_all(files, &["named", "called", "matching", "that match", "with the name", "like"]);
        return phrases::token(name).and_then(|(name, _)| finding(name.text));
    }
    let (name, after) = phrases::token(object)?;
    let after = phrases::skip_one(after, &["files", "file"]).unwrap_or(after);
    let alone = after.trim_matches(['.', '?', ' ']).is_empty();
    if alone && !name.quoted && (name.text.contains('*') || name.looks_like_file()) {
        return finding(name.text);
    }
    text_in_place(phrases::skip_all(line, &["me", "all", "every", "any"]))
}

/// Builds a search by file name. A bare name may be in any folder.
fn finding(name: &str) -> Option<Direction> {
    let pattern = if name.contains('/') { name.to_owned() } else { format!("**/{name}") };
    (!name.is_empty()).then_some(Direction::Find { pattern })
}

/// "Where is x used?"
pub(super) fn locate(rest: &str) -> Option<Direction> {
    let line = rest.lines().next()?.trim_end_matches(['?', ' ']);
    let object = phrases::skip_all(line, &["is", "are", "do we", "does", "the"]);
    let (name, after) = phrases::token(object)?;
    let after = phrases::skip_all(after, &["used", "defined", "declared", "called", "mentioned", "use", "define"]);
    match phrases::skip_one(after, &PREPOSITIONS) {
        Some(place) => phrases::place(place).and_then(|folder| searching(name.text, Some(folder))),
        None if after.trim().is_empty() => searching(name.text, None),
        None => None,
    }
}

fn text_in_place(rest: &str) -> Option<Direction> {
    let (text, folder) = split_place(rest);
    searching(text, folder)
}

/// Splits "fn main in src", "\"fn main\" in the src folder" or "TODO" into the text and the folder,
/// if there is one.
fn split_place(rest: &str) -> (&str, Option<&str>) {
    let line = phrases::without_closing(rest.trim_start().lines().next().unwrap_or_default());
    let fillers = ["the text", "the word", "the string", "the phrase", "all occurrences of", "occurrences of"];
    let line = phrases::skip_one(line, &fillers).unwrap_or(line).trim_start();
    let place_after = |rest| phrases::place(phrases::skip_one(rest, &PREPOSITIONS).unwrap_or(rest));
    if let Some((text, after)) = phrases::quoted(line) {
        return (text, place_after(after));
    }
    let split = PREPOSITIONS.iter().flat_map(|word| phrases::find_words(line, word)).filter(|at| *at > 0).max();
    match split.and_then(|at| Some((line[..at].trim(), place_after(&line[at..])?))) {
        Some((text, folder)) => (text, Some(folder)),
        None => (line.trim_end_matches(['?', '!', '.']), None),
    }
}

fn searching(text: &str, folder: Option<&str>) -> Option<Direction> {
    searching_for(text, literally(text.trim()), folder)
}

fn searching_for(text: &str, pattern: String, folder: Option<&str>) -> Option<Direction> {
    let text = text.trim();
    let folder = folder.filter(|folder| *folder != ".").map(str::to_owned);
    (!text.is_empty()).then(|| Direction::Search { text: text.to_owned(), pattern, folder })
}

/// Builds a regular expression that matches exactly the text.
fn literally(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// Returns the quotation at the start of the text, or all of it.
fn unquote(text: &str) -> (&str, &str) {
    let text = text.trim();
    phrases::quoted(text).unwrap_or((text, ""))
}
