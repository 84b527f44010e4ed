//! Sets one value in a JSON file that users edit by hand. Comments, trailing commas and layout are
//! preserved.
//!
//! Text in, text out; the caller reads and writes files.

use anyhow::{Context, ensure};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::{Map, Value};

/// Some editors write this mark at the start of a file. No JSON parser accepts it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The extensions to JSON that editors accept in their settings: comments and trailing commas.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_extended_string_escapes: false,
    allow_non_finite_numbers: false,
};

/// Returns the text with the value at this path set. Creates missing objects and changes nothing
/// else.
pub(super) fn set(text: &str, path: &[&str], value: &Value) -> anyhow::Result<String> {
    let before = read(text)?;
    if get(&before, path) == Some(value) {
        return Ok(text.to_owned());
    }
    let mut expected = before;
    put(&mut expected, path, value)?;
    let (mark, rest) = split_mark(text);
    let changed = format!("{mark}{}", edit(rest, path, value)?);
    let found = read(&changed).context("the changed settings could not be read again")?;
    ensure!(found == expected, "the settings have an unusual layout");
    Ok(changed)
}

/// Returns the value at this path.
pub(super) fn get<'a>(root: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(root, |value, name| value.get(name))
}

/// Parses the whole text.
pub(super) fn read(text: &str) -> anyhow::Result<Value> {
    CstRootNode::parse(split_mark(text).1, &OPTIONS)?.to_serde_value().context("the file is empty")
}

fn split_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 })
}

/// Changes the syntax tree and writes it as text.
fn edit(text: &str, path: &[&str], value: &Value) -> anyhow::Result<String> {
    let root = CstRootNode::parse(text, &OPTIONS)?;
    let (last, way) = path.split_last().context("there is no path to set")?;
    let mut object = root.object_value().context("the settings are not an object")?;
    for name in way {
        object = object.object_value_or_create(name).with_context(|| format!("`{name}` is not an object"))?;
    }
    match object.get(last) {
        Some(member) => member.set_value(input(value)),
        None => drop(object.append(last, input(value))),
    }
    Ok(root.to_string())
}

/// Makes the same change in the parsed value, for comparison.
fn put(root: &mut Value, path: &[&str], value: &Value) -> anyhow::Result<()> {
    let Some((name, rest)) = path.split_first() else {
        *root = value.clone();
        return Ok(());
    };
    let object =
        root.as_object_mut().with_context(|| format!("the value that should hold `{name}` is not an object"))?;
    put(object.entry(*name).or_insert_with(|| Value::Object(Map::new())), rest, value)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
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
                "agent_servers": {
                    "acpd": {
                        "command": "/bin/acpd",
                        "args": ["acp"]
                    }
                }
                // the end
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
            			"args": ["acp"],
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
            {
              "a":1,
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
    fn an_existing_setting_is_kept_and_a_different_value_replaced() {
        let text = with_agent("{}");
        assert_eq!(with_agent(&text), text);
        let moved = set(&text, &["agent_servers", "acpd", "command"], &json!("/opt/acpd")).unwrap();
        assert_eq!(moved, text.replace("/bin/acpd", "/opt/acpd"));
    }

    #[test]
    fn a_broken_settings_file_is_refused_with_its_line() {
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
            the file is empty
            Expected comma on line 2 column 7
            Unexpected token on line 1 column 7
            Unterminated string literal on line 3 column 1
            Unterminated comment block on line 1 column 3
            the value that should hold `agent_servers` is not an object
            Text cannot contain more than one JSON value on line 1 column 4
            the value that should hold `acpd` is not an object"#]]
        .assert_eq(&said.join("\n"));
    }

    proptest! {
        /// Whatever the layout, the value is set and everything else is unchanged; invalid JSON is
        /// an error and not a panic.
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
