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
        if !seen.contains(&path) {
            blocks.push(file(&path)?);
            seen.push(path);
        }
    }
    blocks.push(prompt_source::text(text));
    Ok(blocks)
}

/// Returns the existing files that a text names: `@path`, `@"path with spaces"`, and absolute paths
/// of images, as terminals paste them.
fn mentioned(text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (at, word) in words(text) {
        let path = match word.strip_prefix('@') {
            Some(path) if at => Some(PathBuf::from(path)),
            _ => pasted_image(&word),
        };
        found.extend(path.filter(|path| path.exists()));
    }
    found
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
        if Path::new(word.trim_start_matches('@')).exists() { word } else { bare.to_owned() }
    };
    words.into_iter().map(|(at, word)| (at, tidy(word))).filter(|(_, word)| !word.is_empty()).collect()
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

/// Completes a path after `@`. Each candidate is a whole path.
pub(super) fn complete(typed: &str) -> Vec<String> {
    let (folder, start) = typed.rsplit_once('/').map_or(("", typed), |(folder, start)| (folder, start));
    let place = if typed.starts_with('/') && folder.is_empty() {
        "/"
    } else if folder.is_empty() {
        "."
    } else {
        folder
    };
    let prefix = typed.strip_suffix(start).unwrap_or_default();
    let entries = fs::read_dir(place).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let shown = name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
            let slash = if entry.path().is_dir() { "/" } else { " " };
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
            "see @\"{root}/a b.txt\", @{root}/missing and me@{root}/data\n{root}/shot.png? {root}/a\\ b.txt @{root}/data."
        );
        let blocks = blocks(&text).unwrap();
        let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["resource", "image", "resource_link", "text"]);
        assert_eq!(blocks[0]["resource"]["text"], "text");
        assert!(blocks[0]["resource"]["uri"].as_str().unwrap().ends_with("/a%20b.txt"));
        assert_eq!((&blocks[1]["data"], &blocks[1]["mimeType"]), (&json!("iVA="), &json!("image/png")));
        assert_eq!(blocks[3]["text"], text);
    }

    #[test]
    fn paths_are_completed_folder_by_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("source")).unwrap();
        fs::write(folder.path().join("some.txt"), "").unwrap();
        fs::write(folder.path().join(".hidden"), "").unwrap();
        let root = folder.path().display();
        assert_eq!(complete(&format!("{root}/so")), [format!("{root}/some.txt "), format!("{root}/source/")]);
        assert_eq!(complete(&format!("{root}/.h")), [format!("{root}/.hidden ")]);
        assert_eq!(complete(&format!("{root}/")).len(), 2);
        assert!(complete(&format!("{root}/none/x")).is_empty());
    }

    #[test]
    fn what_is_no_image_is_refused_as_one() {
        assert!(image(Path::new("a.txt")).unwrap_err().to_string().contains("is not a PNG"));
    }
}
