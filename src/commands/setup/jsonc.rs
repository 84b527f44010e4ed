//! Setting one value in a JSON file that people edit by hand: comments, trailing commas and layout stay as they are.
//!
//! The text is parsed into spans, and only the bytes around the value change. Pure; the caller reads and writes files.

use std::ops::Range;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};

/// Deeper than any settings.
const DEEPEST: usize = 128;

/// The text with the value at this path set; objects on the way are made if need be. Nothing else changes.
pub(super) fn set(text: &str, path: &[&str], value: &Value) -> anyhow::Result<String> {
    let root = parse(text)?;
    let changed = match change(text, &root, path, value)? {
        Some(edit) => edit.apply(text),
        None => text.to_owned(),
    };
    let mut expected = root.value;
    put(&mut expected, path, value)?;
    let found = parse(&changed).context("the changed settings could not be read again")?;
    ensure!(found.value == expected, "the settings have an unusual layout");
    Ok(changed)
}

/// What stands at this path.
pub(super) fn get<'a>(root: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(root, |value, name| value.get(name))
}

/// The value of the whole text. A text without any value, comments aside, is an empty object.
pub(super) fn read(text: &str) -> anyhow::Result<Value> {
    Ok(parse(text)?.value)
}

fn put(root: &mut Value, path: &[&str], value: &Value) -> anyhow::Result<()> {
    let Some((name, rest)) = path.split_first() else {
        *root = value.clone();
        return Ok(());
    };
    let object = root.as_object_mut().with_context(|| format!("what holds `{name}` is not an object"))?;
    put(object.entry(*name).or_insert_with(|| Value::Object(Map::new())), rest, value)
}

/// A piece of text to put in, and one more before it.
struct Edit {
    replaced: Range<usize>,
    text: String,
    /// Where the member before needs a comma.
    comma: Option<usize>,
}

impl Edit {
    fn apply(&self, text: &str) -> String {
        let mut changed = text.to_owned();
        changed.replace_range(self.replaced.clone(), &self.text);
        // It stands before the piece, so that the piece must go in first.
        if let Some(comma) = self.comma {
            changed.insert(comma, ',');
        }
        changed
    }
}

/// None if the value is there already.
fn change(text: &str, node: &Node, path: &[&str], value: &Value) -> anyhow::Result<Option<Edit>> {
    let Some((name, rest)) = path.split_first() else {
        let replaced = node.span.clone();
        let text = pretty(value, &indent_at(text, replaced.start), &unit(text));
        return Ok((node.value != *value).then_some(Edit { replaced, text, comma: None }));
    };
    ensure!(node.value.is_object(), "what holds `{name}` is not an object");
    // Of two members with one name the last counts.
    if let Some(member) = node.members.iter().rfind(|member| member.name == *name) {
        return change(text, &member.node, rest, value);
    }
    let value = rest
        .iter()
        .rev()
        .fold(value.clone(), |inner, name| Value::Object(Map::from_iter([((*name).to_owned(), inner)])));
    Ok(Some(insert(text, node, name, &value)))
}

/// At the end of the object, after whatever comment stands there.
fn insert(text: &str, object: &Node, name: &str, value: &Value) -> Edit {
    let outer = indent_at(text, object.span.start);
    let inner = match object.members.first() {
        Some(first) if text[object.span.start..first.start].contains('\n') => indent_at(text, first.start),
        Some(_) | None => format!("{outer}{}", unit(text)),
    };
    let close = object.span.end - 1;
    let end = text[..close].trim_end().len();
    let tail = if text[end..close].contains('\n') { text[end..close].to_owned() } else { format!("\n{outer}") };
    let comma_after = if object.trailing_comma { "," } else { "" };
    let member = format!("{}: {}", Value::from(name), pretty(value, &inner, &unit(text)));
    let last = object.members.last().filter(|_| !object.trailing_comma);
    Edit {
        replaced: end..close,
        text: format!("\n{inner}{member}{comma_after}{tail}"),
        comma: last.map(|last| last.node.span.end),
    }
}

/// The white space at the start of the line.
fn indent_at(text: &str, offset: usize) -> String {
    let line = &text[text[..offset].rfind('\n').map_or(0, |at| at + 1)..];
    line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
}

/// What one step of indentation is in this text.
fn unit(text: &str) -> String {
    let first =
        text.lines().map(|line| &line[..line.len() - line.trim_start().len()]).find(|indent| !indent.is_empty());
    first.map_or("  ", |indent| if indent.starts_with('\t') { "\t" } else { indent }).to_owned()
}

/// Objects over several lines, lists on one.
fn pretty(value: &Value, indent: &str, step: &str) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let inner = format!("{indent}{step}");
            let lines = members
                .iter()
                .map(|(name, value)| format!("{inner}{}: {}", Value::from(name.as_str()), pretty(value, &inner, step)));
            format!("{{\n{}\n{indent}}}", lines.collect::<Vec<_>>().join(",\n"))
        }
        Value::Array(members) => {
            let members = members.iter().map(|member| pretty(member, indent, step));
            format!("[{}]", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

struct Node {
    span: Range<usize>,
    value: Value,
    /// Of an object, in order.
    members: Vec<Member>,
    trailing_comma: bool,
}

struct Member {
    name: String,
    start: usize,
    node: Node,
}

fn parse(text: &str) -> anyhow::Result<Node> {
    let mut parser = Parser { text, at: 0 };
    parser.skip()?;
    if parser.at == text.len() {
        bail!("there is nothing in it");
    }
    let root = parser.value(0)?;
    parser.skip()?;
    ensure!(parser.at == text.len(), "line {}: something stands after the end", parser.line());
    Ok(root)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn line(&self) -> usize {
        1 + self.text[..self.at].matches('\n').count()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// White space and comments.
    fn skip(&mut self) -> anyhow::Result<()> {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']).len();
            let rest = &rest[blank..];
            let comment = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").with_context(|| format!("line {}: a comment does not end", self.line()))? + 2
            } else {
                0
            };
            self.at += blank + comment;
            if comment == 0 {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> anyhow::Result<Node> {
        ensure!(depth < DEEPEST, "line {}: too deep", self.line());
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            _ => self.scalar(),
        }
    }

    fn object(&mut self, depth: usize) -> anyhow::Result<Node> {
        let start = self.at;
        let (mut members, mut object) = (Vec::<Member>::new(), Map::new());
        let trailing_comma = self.items(b'}', |parser| {
            let start = parser.at;
            let Value::String(name) = parser.scalar()?.value else {
                bail!("line {}: a name must be a string", parser.line());
            };
            parser.skip()?;
            ensure!(parser.peek() == Some(b':'), "line {}: expected `:` after the name `{name}`", parser.line());
            parser.at += 1;
            parser.skip()?;
            let node = parser.value(depth + 1)?;
            object.insert(name.clone(), node.value.clone());
            members.push(Member { name, start, node });
            Ok(())
        })?;
        Ok(Node { span: start..self.at, value: Value::Object(object), members, trailing_comma })
    }

    fn list(&mut self, depth: usize) -> anyhow::Result<Node> {
        let start = self.at;
        let mut values = Vec::new();
        let trailing_comma = self.items(b']', |parser| {
            values.push(parser.value(depth + 1)?.value);
            Ok(())
        })?;
        Ok(Node { span: start..self.at, value: Value::Array(values), members: Vec::new(), trailing_comma })
    }

    /// From the opening bracket to the closing one; true if a comma stands before that.
    fn items(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> anyhow::Result<()>) -> anyhow::Result<bool> {
        self.at += 1;
        let mut comma = false;
        loop {
            self.skip()?;
            if self.peek() == Some(close) {
                self.at += 1;
                return Ok(comma);
            }
            item(self)?;
            self.skip()?;
            comma = self.peek() == Some(b',');
            if comma {
                self.at += 1;
            } else {
                let close = char::from(close);
                ensure!(self.peek() == Some(close as u8), "line {}: expected `,` or `{close}`", self.line());
            }
        }
    }

    fn scalar(&mut self) -> anyhow::Result<Node> {
        let start = self.at;
        let rest = &self.text[start..];
        let length = if rest.starts_with('"') {
            string_length(rest).with_context(|| format!("line {}: a string does not end", self.line()))?
        } else {
            rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "+-.".contains(letter))).unwrap_or(rest.len())
        };
        let value = serde_json::from_str(&rest[..length]).ok();
        let value = value.with_context(|| format!("line {}: expected a value", self.line()))?;
        self.at += length;
        Ok(Node { span: start..self.at, value, members: Vec::new(), trailing_comma: false })
    }
}

fn string_length(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn agent() -> Value {
        json!({ "command": "/bin/acpd", "args": ["acp"] })
    }

    fn with_agent(text: &str) -> String {
        set(text, &["agent_servers", "acpd"], &agent()).unwrap()
    }

    #[test]
    fn comments_commas_and_layout_stay() {
        let text = "// Zed settings\n{\n    \"theme\": \"One\", // dark\n    /* fonts */ \"size\": 12 // points\n    // the end\n}\n";
        expect![[r#"
            // Zed settings
            {
                "theme": "One", // dark
                /* fonts */ "size": 12, // points
                // the end
                "agent_servers": {
                    "acpd": {
                        "command": "/bin/acpd",
                        "args": ["acp"]
                    }
                }
            }
        "#]]
        .assert_eq(&with_agent(text));
    }

    #[test]
    fn an_object_that_is_there_gets_one_more_member() {
        let text = "{\n\t\"agent_servers\": {\n\t\t\"other\": {},\n\t},\n}\n";
        expect![[r#"
            {
            	"agent_servers": {
            		"other": {},
            		"acpd": {
            			"command": "/bin/acpd",
            			"args": ["acp"]
            		},
            	},
            }
        "#]]
        .assert_eq(&with_agent(text));
    }

    #[test]
    fn small_layouts_work_too() {
        for text in ["{}", "{ }", "{\"a\":1}", "{ \"a\": [1, 2,], }", "{\n}", "\u{feff}{}", "{\"agent_servers\":{}}"] {
            assert_eq!(get(&read(&with_agent(text)).unwrap(), &["agent_servers", "acpd"]), Some(&agent()), "{text}");
        }
        expect![[r#"
            {"a":1,
              "agent_servers": {
                "acpd": {
                  "command": "/bin/acpd",
                  "args": ["acp"]
                }
              }
            }"#]]
        .assert_eq(&with_agent("{\"a\":1}"));
    }

    #[test]
    fn what_is_there_already_changes_nothing_and_another_value_is_replaced() {
        let text = with_agent("{}");
        assert_eq!(with_agent(&text), text);
        let moved = set(&text, &["agent_servers", "acpd", "command"], &json!("/opt/acpd")).unwrap();
        assert_eq!(moved, text.replace("/bin/acpd", "/opt/acpd"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_line() {
        let refused = |text: &str| set(text, &["agent_servers", "acpd"], &agent()).unwrap_err().to_string();
        let said: Vec<String> = [
            "",
            "{\n\"a\": 1\n\"b\": 2}",
            "{\"a\": tru}",
            "{\n\n\"a",
            "{ /* ",
            "[]",
            "{} {}",
            "{\"agent_servers\": 1}",
        ]
        .map(refused)
        .to_vec();
        expect![[r#"
            there is nothing in it
            line 3: expected `,` or `}`
            line 1: expected a value
            line 3: a string does not end
            line 1: a comment does not end
            what holds `agent_servers` is not an object
            line 1: something stands after the end
            what holds `acpd` is not an object"#]]
        .assert_eq(&said.join("\n"));
    }

    proptest! {
        /// Whatever the layout, the value is set and all else is as before; a text that is no JSON is an error and no panic.
        #[test]
        fn any_text_is_changed_rightly_or_refused(text in "[{}\\[\\]\":,a1 \n/*\\\\]{0,40}") {
            if let Ok(changed) = set(&text, &["x", "y"], &json!({ "z": [1] })) {
                let found = read(&changed).unwrap();
                prop_assert_eq!(get(&found, &["x", "y", "z"]), Some(&json!([1])));
            }
        }

        #[test]
        fn any_json_is_changed_rightly(members in prop::collection::btree_map("[a-z]{0,3}", any::<i32>(), 0..5), pretty: bool) {
            let before = json!(members);
            let text = if pretty { serde_json::to_string_pretty(&before) } else { serde_json::to_string(&before) }.unwrap();
            let after = read(&set(&text, &["new one", "y"], &json!(true)).unwrap()).unwrap();
            let mut expected = before;
            expected["new one"] = json!({ "y": true });
            prop_assert_eq!(after, expected);
        }
    }
}
