//! Files attached to a prompt: named with `@path`, with `--file` and `--image`, or pasted as the
//! path of an image.
//!
//! Text files are sent with their contents, images as images, and other files as links, which the
//! agent can open with its tools. The daemon applies its rules to all of them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::resource_link::{file_path, file_uri};
use serde_json::{Value, json};

use super::prompt_source;

/// The largest text file, in bytes, that is sent with its contents. A larger one is sent as a link.
const LARGEST_TEXT: u64 = 256 << 10;

/// The largest image in bytes. Providers refuse larger ones.
const LARGEST_IMAGE: u64 = 10 << 20;

const IMAGES: [(&str, &str); 5] =
    [("png", "image/png"), ("jpg", "image/jpeg"), ("jpeg", "image/jpeg"), ("gif", "image/gif"), ("webp", "image/webp")];

/// Returns the blocks of a prompt: the text as it was typed, and the files that it names.
pub(super) fn blocks(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut blocks = Vec::new();
    let mut seen = Vec::new();
    for path in mentioned(text) {
        let whole = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if !seen.contains(&whole) {
            blocks.push(file(&path)?);
            seen.push(whole);
        }
    }
    blocks.push(prompt_source::text(text));
    Ok(blocks)
}

/// Returns the existing files that a text names: `@path`, `@"path with spaces"`, and absolute paths
/// of images, as terminals paste them.
fn mentioned(text: &str) -> Vec<PathBuf> {
    // Some programs copy a path with blanks as it is.
    let mut found = Vec::from_iter(pasted_image(text.trim()));
    for (at, word) in words(text) {
        let path = match word.strip_prefix('@') {
            Some(path) if at => Some(expanded(path)),
            _ => pasted_image(&word),
        };
        found.extend(path.filter(|path| path.exists() && !found.contains(path)));
    }
    found
}

/// Returns the words of a prompt that look like `@path` but name no file. A word without a slash or
/// a dot may be the name of a person.
pub(super) fn missing(prompt: &[Value]) -> Vec<String> {
    let texts = prompt.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
    let named = texts.flat_map(words).filter(|(at, word)| *at && word.contains(['/', '.']));
    named.map(|(_, word)| word).filter(|word| !expanded(word.trim_start_matches('@')).exists()).collect()
}

/// Splits a text into words as a shell would, and reports whether each begins with an unquoted `@`.
fn words(text: &str) -> Vec<(bool, String)> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut at) = (None, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None) if letters.peek().is_some() => word.extend(letters.next()),
            ('"' | '\'', None) if word.is_empty() || word == "@" => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (letter, None) if letter.is_whitespace() => {
                words.push((std::mem::take(&mut at), std::mem::take(&mut word)));
            }
            (letter, _) => {
                at |= letter == '@' && word.is_empty() && quote.is_none();
                word.push(letter);
            }
        }
    }
    words.push((at, word));
    // A full stop or comma at the end belongs to the sentence, unless a file has that name.
    let tidy = |word: String| {
        let bare = word.trim_end_matches([',', '.', ';', ':', '?', '!', ')']);
        if expanded(word.trim_start_matches('@')).exists() { word } else { bare.to_owned() }
    };
    words.into_iter().map(|(at, word)| (at, tidy(word))).filter(|(_, word)| !word.is_empty()).collect()
}

/// Returns the path that a text names; `~/` stands for the user's home folder.
fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ => PathBuf::from(path),
    }
}

fn pasted_image(word: &str) -> Option<PathBuf> {
    let path = file_path(word).unwrap_or_else(|| PathBuf::from(word));
    (path.is_absolute() && mime(&path).is_some() && path.is_file()).then_some(path)
}

/// Returns a file as a block of a prompt.
pub(super) fn file(path: &Path) -> anyhow::Result<Value> {
    let cannot = || format!("cannot attach {}", path.display());
    let whole = fs::canonicalize(path).with_context(cannot)?;
    let about = fs::metadata(&whole).with_context(cannot)?;
    if about.is_file() && mime(&whole).is_some() {
        return image(path);
    }
    let uri = address(&whole)?;
    if about.is_file()
        && about.len() <= LARGEST_TEXT
        && let Ok(text) = String::from_utf8(fs::read(&whole).with_context(cannot)?)
    {
        return Ok(json!({ "type": "resource", "resource": { "uri": uri, "mimeType": "text/plain", "text": text } }));
    }
    Ok(json!({ "type": "resource_link", "uri": uri, "name": path.display().to_string(), "size": about.len() }))
}

/// Returns an image as a block of a prompt.
pub(super) fn image(path: &Path) -> anyhow::Result<Value> {
    let cannot = || format!("cannot attach {}", path.display());
    let mime = mime(path).with_context(|| format!("{} is not a PNG, JPEG, GIF or WebP image", path.display()))?;
    let size = fs::metadata(path).with_context(cannot)?.len();
    if size > LARGEST_IMAGE {
        bail!("{} is {size} bytes long; an image may be at most {LARGEST_IMAGE} bytes", path.display());
    }
    let data = STANDARD.encode(fs::read(path).with_context(cannot)?);
    let uri = address(&fs::canonicalize(path).with_context(cannot)?)?;
    Ok(json!({ "type": "image", "mimeType": mime, "data": data, "uri": uri }))
}

fn mime(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_lowercase();
    IMAGES.iter().find(|(known, _)| *known == ending).map(|(_, mime)| *mime)
}

fn address(path: &Path) -> anyhow::Result<String> {
    path.to_str().with_context(|| format!("{} is not Unicode", path.display()))?;
    Ok(file_uri(path))
}

/// Completes the last word of a line if it begins with `@`. Returns where the path begins in the
/// line, and the candidates: whole paths, quoted or escaped as the word is.
pub(super) fn complete(line: &str) -> Option<(usize, Vec<String>)> {
    let begins_a_word = |at: usize| at == 0 || line[..at].ends_with(char::is_whitespace);
    let (at, _) = line.rmatch_indices('@').find(|(at, _)| begins_a_word(*at))?;
    let after = &line[at + 1..];
    let quote = after.chars().next().filter(|letter| ['"', '\''].contains(letter));
    if let Some(quote) = quote {
        let typed = after[1..].to_owned();
        let quoted = |path: String| if path.ends_with('/') { path } else { format!("{path}{quote} ") };
        let found = paths(&typed).into_iter().filter(|path| !path.contains(quote));
        return (!typed.contains(quote)).then(|| (at + 2, found.map(quoted).collect()));
    }
    let typed = unescaped(after)?;
    let finished = |path: String| {
        let space = if path.ends_with('/') { "" } else { " " };
        format!("{}{space}", escaped(&path))
    };
    Some((at + 1, paths(&typed).into_iter().map(finished).collect()))
}

/// Removes the backslashes before single letters. Returns None if there is a blank without a
/// backslash, because the word ends there.
fn unescaped(word: &str) -> Option<String> {
    let mut path = String::new();
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => path.extend(letters.next()),
            letter if letter.is_whitespace() => return None,
            letter => path.push(letter),
        }
    }
    Some(path)
}

fn escaped(path: &str) -> String {
    let mut text = String::new();
    for letter in path.chars() {
        if letter.is_whitespace() || ['\\', '"', '\''].contains(&letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// Returns the paths that begin with this text; folders end with a slash.
fn paths(typed: &str) -> Vec<String> {
    let start = typed.rsplit('/').next().unwrap_or(typed);
    let prefix = typed.strip_suffix(start).unwrap_or_default();
    let folder = if prefix.is_empty() { PathBuf::from(".") } else { expanded(prefix) };
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let shown = name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
            let slash = if entry.path().is_dir() { "/" } else { "" };
            shown.then(|| format!("{prefix}{name}{slash}"))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_an_at_sign_or_a_pasted_path_of_an_image() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::write(place("a b.txt"), "text").unwrap();
        fs::write(place("shot.png"), [137, 80]).unwrap();
        fs::write(place("data"), [0xff, 0xfe]).unwrap();
        let root = folder.path().display();
        let text = format!(
            "see @\"{root}/a b.txt\", @{root}/missing and me@{root}/data\n{root}/shot.png? {root}/a\\ b.txt @{root}/data. \
             @{root}/../{}/data",
            folder.path().file_name().unwrap().display()
        );
        let blocks = blocks(&text).unwrap();
        let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["resource", "image", "resource_link", "text"]);
        assert_eq!(blocks[0]["resource"]["text"], "text");
        assert!(blocks[0]["resource"]["uri"].as_str().unwrap().ends_with("/a%20b.txt"));
        assert_eq!((&blocks[1]["data"], &blocks[1]["mimeType"]), (&json!("iVA="), &json!("image/png")));
        assert_eq!(blocks[3]["text"], text);
        assert_eq!(missing(&blocks), [format!("@{root}/missing")]);
        assert!(missing(&[prompt_source::text("ask @alice, me@home.example or @.")]).is_empty());
    }

    #[test]
    fn a_pasted_path_of_an_image_may_have_blanks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my shot.png");
        fs::write(&path, [137, 80]).unwrap();
        let path = path.display().to_string();
        let pasted = [
            path.clone(),
            format!(" {path} "),
            path.replace(' ', "\\ "),
            format!("'{path}'"),
            file_uri(Path::new(&path)),
        ];
        for text in pasted {
            assert_eq!(mentioned(&text), [Path::new(&path)], "{text}");
        }
    }

    #[test]
    fn paths_are_completed_folder_by_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("source")).unwrap();
        fs::write(folder.path().join("some.txt"), "").unwrap();
        fs::write(folder.path().join(".hidden"), "").unwrap();
        let root = folder.path().display();
        let complete = |line: &str| complete(line).unwrap();
        assert_eq!(complete(&format!("@{root}/so")), (1, vec![format!("{root}/some.txt "), format!("{root}/source/")]));
        assert_eq!(complete(&format!("see @{root}/.h")), (5, vec![format!("{root}/.hidden ")]));
        assert_eq!(complete(&format!("@{root}/")).1.len(), 2);
        assert!(complete(&format!("@{root}/none/x")).1.is_empty());
        assert_eq!(super::complete("me@home and done"), None);
        assert_eq!(super::complete("@a and b"), None);
    }

    #[test]
    fn a_completed_path_names_the_file_whatever_its_name_is() {
        let folder = tempfile::tempdir().unwrap();
        let scope = folder.path().join("@scope");
        fs::create_dir(&scope).unwrap();
        let root = folder.path().display();
        for name in ["a b.txt", "it's.txt", "say \"hi\".txt", "back\\slash.txt", "@at.txt"] {
            fs::write(scope.join(name), "text").unwrap();
            let start: String = name.chars().take(3).collect();
            let bare = format!("@{root}/@scope/{}", escaped(&start));
            let quoted = format!("@\"{root}/@scope/{}", &name[..1]);
            for typed in [bare, quoted] {
                let (at, candidates) = complete(&typed).unwrap();
                if name.contains('"') && typed.starts_with("@\"") {
                    assert!(candidates.is_empty(), "no quoted path contains its quote");
                    continue;
                }
                let line = format!("{}{}please", &typed[..at], candidates.join("|"));
                assert_eq!(mentioned(&line), [scope.join(name)], "{line}");
            }
            fs::remove_file(scope.join(name)).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_not_an_image_is_refused_as_one() {
        assert!(image(Path::new("a.txt")).unwrap_err().to_string().contains("is not a PNG"));
    }
}
