//! Turns a prompt's blocks into text to find directions in.
//!
//! Pure. Editors send "read @main.rs" as a text and a link; here it becomes one sentence again.

use domain::{Content, Payload};

use super::directions::{Direction, Understanding, understand};

/// Parses the blocks. Mentioned files count only where the text alone is unclear, because many
/// editors attach the open file to every prompt.
pub(super) fn understand_blocks(blocks: &[Content]) -> Understanding {
    let alone = understand(&text_alone(blocks));
    if alone.unclear.is_none() {
        return alone;
    }
    let together = understand(&text_with_files(blocks));
    let anything_at_all = alone.directions == [Direction::Look] && together.directions != [Direction::Look];
    if together.unclear.is_none() || anything_at_all { together } else { alone }
}

fn text_alone(blocks: &[Content]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(|block| as_text(&block.payload)).collect();
    texts.join("\n")
}

fn text_with_files(blocks: &[Content]) -> String {
    let mut sentence = String::new();
    for block in blocks {
        match as_text(&block.payload) {
            Some(text) => sentence.push_str(text),
            None => match uri_of(&block.payload).and_then(file_path) {
                Some(path) => sentence.push_str(&format!(" `{path}` ")),
                None => sentence.push(' '),
            },
        }
    }
    sentence
}

fn as_text(payload: &Payload) -> Option<&str> {
    match payload {
        Payload::Text { text } => Some(text),
        Payload::Link { .. }
        | Payload::TextResource { .. }
        | Payload::BlobResource { .. }
        | Payload::Image { .. }
        | Payload::Audio { .. } => None,
    }
}

fn uri_of(payload: &Payload) -> Option<&str> {
    match payload {
        Payload::Link { uri, .. } | Payload::TextResource { uri, .. } | Payload::BlobResource { uri, .. } => Some(uri),
        Payload::Text { .. } | Payload::Image { .. } | Payload::Audio { .. } => None,
    }
}

/// Returns the path of a `file:` URI, if it can be part of a sentence.
fn file_path(uri: &str) -> Option<String> {
    let path = domain::resource_link::file_path(uri)?.into_os_string().into_string().ok()?;
    (!path.contains(['`', '\n'])).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(uri: &str) -> Content {
        Payload::Link {
            uri: uri.to_owned(),
            name: "x".to_owned(),
            mime: None,
            title: None,
            description: None,
            size: None,
            path: None,
        }
        .into()
    }

    fn read(file: &str) -> Direction {
        Direction::Read { file: file.to_owned() }
    }

    #[test]
    fn a_mentioned_file_completes_a_direction() {
        let blocks = [Content::text("please read "), link("file:///w/a%20b.rs#L1:9"), Content::text(" and then list")];
        let list = Direction::List { folder: ".".to_owned() };
        assert_eq!(understand_blocks(&blocks[..2]).directions, [read("/w/a b.rs")]);
        assert_eq!(understand_blocks(&blocks).directions, [read("/w/a b.rs"), list]);
    }

    #[test]
    fn an_attached_file_does_not_disturb_a_direction_that_stands_alone() {
        let blocks = [link("file:///w/open.rs"), Content::text("read a.txt")];
        assert_eq!(understand_blocks(&blocks).directions, [read("a.txt")]);
    }
}
