//! The file of one slash command: its description, and its text with placeholders. Pure.

use crate::front_matter;

/// The longest description, in characters. A longer first line is cut.
const DESCRIPTION: usize = 100;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) description: String,
    /// A hint about the arguments after the command's name.
    pub(super) hint: Option<String>,
    text: String,
}

impl Template {
    /// Parses a file. Returns None if there is no text for the model.
    pub(super) fn read(file: &str) -> Option<Self> {
        let (front, text) = front_matter::read(file);
        if text.is_empty() {
            return None;
        }
        Some(Self {
            description: front.text("description").unwrap_or_else(|| first_line(&text)),
            hint: front.text("argument-hint"),
            text,
        })
    }

    /// Returns the text with `$ARGUMENTS`, `$1`, `$2`, ... replaced, in one pass: typed text is not
    /// expanded again. If the text has no placeholder, the arguments are appended.
    pub(super) fn fill(&self, arguments: &str) -> String {
        let words = words(arguments);
        let mut filled = String::with_capacity(self.text.len() + arguments.len());
        let mut placed = false;
        let mut rest = self.text.as_str();
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            let digits = after.len() - after.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
            if let Some(after) = after.strip_prefix("ARGUMENTS") {
                filled.push_str(arguments);
                (placed, rest) = (true, after);
            } else if digits > 0 && !after.starts_with('0') {
                let number = after[..digits].parse::<usize>().unwrap_or(usize::MAX);
                filled.push_str(words.get(number - 1).map_or("", String::as_str));
                (placed, rest) = (true, &after[digits..]);
            } else {
                filled.push('$');
                rest = after;
            }
        }
        filled.push_str(rest);
        if !placed && !arguments.is_empty() {
            filled.push_str("\n\n");
            filled.push_str(arguments);
        }
        filled
    }
}

pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.trim_start_matches('#').trim();
    let mut short: String = line.chars().take(DESCRIPTION).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// Splits arguments at spaces, but not inside quotes.
fn words(arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in arguments.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') if word.is_none() => {
                word = Some(String::new());
                quote = Some(letter);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, arguments: &str) -> String {
        Template::read(text).unwrap().fill(arguments)
    }

    #[test]
    fn the_description_is_in_the_front_matter_or_the_first_line() {
        let front =
            "---\r\nDescription: \"Look: closely\"\r\nargument-hint: '[file]'\r\nmodel: x\r\n---\r\n\r\n# Review\nIt.";
        let read = Template::read(front).unwrap();
        assert_eq!((read.description.as_str(), read.hint.as_deref()), ("Look: closely", Some("[file]")));
        assert_eq!(read.text, "# Review\nIt.");
        let plain = Template::read("## Review the change\nIt.").unwrap();
        assert_eq!((plain.description.as_str(), plain.hint), ("Review the change", None));
        assert_eq!(Template::read(&"é".repeat(101)).unwrap().description, format!("{}…", "é".repeat(100)));
        assert_eq!(Template::read("---\ndescription: x\n---\n \n"), None);
        assert_eq!(Template::read("---\n---\nx").unwrap().text, "x");
        // Front matter that is not closed is text.
        assert_eq!(Template::read("---\ndescription: x").unwrap().text, "---\ndescription: x");
    }

    #[test]
    fn placeholders_are_filled_once_and_no_typed_argument_is_lost() {
        assert_eq!(filled("Look at $ARGUMENTS.", "a  b"), "Look at a  b.");
        assert_eq!(
            filled("From $1 to $2, not $3 ($10).", r#"here 'over there' "#),
            "From here to over there, not  ()."
        );
        assert_eq!(filled("$1 and $ARGUMENTS", "$2 x"), "$2 and $2 x");
        assert_eq!(filled("It costs $ 5, $x and $0.", "now"), "It costs $ 5, $x and $0.\n\nnow");
        assert_eq!(filled("Go.", ""), "Go.");
        assert_eq!(filled("$1|$2", r#"it's "a b"c"#), "it's|a bc");
    }
}
