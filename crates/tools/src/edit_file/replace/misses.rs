//! Tests with typical edits of models whose old text does not occur exactly: which are made, how,
//! and which are refused.

use super::{Edit, Matching, apply};

/// The expected result of an edit.
enum Expected {
    /// The resulting file, and what was ignored to find the text.
    Made(&'static str, &'static str),
    /// The beginning of the reason for the refusal.
    Refused(&'static str),
}

use Expected::{Made, Refused};

struct Case {
    name: &'static str,
    file: &'static str,
    old: &'static str,
    new: &'static str,
    expected: Expected,
}

const TRAILING: &str = "white space at the ends of lines";
const INDENT: &str = "a shifted indentation";
const QUOTES: &str = "the shape of quotes, dashes and spaces";
const TRIMMED: &str = "white space around lines and the shape of quotes";
const MISSING: &str = "`old_text` does not occur in the file";
const SEVERAL: &str = "`old_text` does not occur exactly, and several times if ";

const fn case(
    name: &'static str,
    file: &'static str,
    old: &'static str,
    new: &'static str,
    expected: Expected,
) -> Case {
    Case { name, file, old, new, expected }
}

const MISSES: [Case; 42] = [
    case("the file has spaces at a line's end", "a  \nb\nc\n", "a\nb\n", "x\ny\n", Made("x\ny\nc\n", TRAILING)),
    case("the model has spaces at a line's end", "a\nb\nc\n", "a \nb", "x\nb", Made("x\nb\nc\n", TRAILING)),
    case("an unchanged line keeps its spaces", "a  \nb\nc\n", "a\nb", "a\ny", Made("a  \ny\nc\n", TRAILING)),
    case("a tab at a line's end", "a\t\nb\n", "a\nb", "a\nc", Made("a\t\nc\n", TRAILING)),
    case("a blank line with spaces", "a\n    \nb\n", "a\n\nb", "a\n\nc", Made("a\n    \nc\n", TRAILING)),
    case("the last line is deleted", "a\nb \n", "b\n", "", Made("a\n", TRAILING)),
    case("a line with spaces is deleted", "a\nb \nc\n", "a\nb\n", "a\n", Made("a\nc\n", TRAILING)),
    case("two lines become none", "a \nb \nc\n", "a\nb\n", "", Made("c\n", TRAILING)),
    case(
        "less indentation",
        "    if x:\n        y()\n",
        "if x:\n    y()",
        "if x:\n    z()",
        Made("    if x:\n        z()\n", INDENT),
    ),
    case(
        "more indentation",
        "if x:\n    y()\n",
        "    if x:\n        y()",
        "    if x:\n        z()",
        Made("if x:\n    z()\n", INDENT),
    ),
    case(
        "a new line deeper than any old one",
        "  a {\n    b\n  }\n",
        "a {\n  b\n}",
        "a {\n  b\n    c\n}",
        Made("  a {\n    b\n      c\n  }\n", INDENT),
    ),
    case(
        "tabs instead of spaces",
        "f() {\n\tg()\n}\n",
        "f() {\n    g()\n}",
        "f() {\n    h()\n}",
        Made("f() {\n\th()\n}\n", INDENT),
    ),
    case(
        "deeper, and tabs instead of spaces",
        "f() {\n\tg()\n}\n",
        "f() {\n    g()\n}",
        "f() {\n    if x {\n        g()\n    }\n}",
        Made("f() {\n\tif x {\n\t\tg()\n\t}\n}\n", INDENT),
    ),
    case(
        "spaces instead of tabs",
        "f() {\n  g()\n}\n",
        "f() {\n\tg()\n}",
        "f() {\n\th()\n\t\ti()\n}",
        Made("f() {\n  h()\n    i()\n}\n", INDENT),
    ),
    case(
        "two spaces instead of four",
        "a:\n    b:\n        c\n",
        "a:\n  b:\n    c",
        "a:\n  b:\n    d",
        Made("a:\n    b:\n        d\n", INDENT),
    ),
    case("one line without its indentation is a part of it", "  a b\n", "a b", "c", Made("  c\n", "")),
    case("a new line with less indentation", "    a\n    b\n", "  a\n  b", "  a\nc", Made("    a\n  c\n", INDENT)),
    case("a new blank line stays blank", "  a\n  b\n", " a\n b", " a\n\n c", Made("  a\n\n  c\n", INDENT)),
    case(
        "curly double quotes in the file",
        "say(\u{201c}hi\u{201d})\n",
        "say(\"hi\")",
        "say(\"ho\")",
        Made("say(\u{201c}ho\u{201d})\n", QUOTES),
    ),
    case(
        "curly double quotes of the model",
        "say(\"hi\")\n",
        "say(\u{201c}hi\u{201d})",
        "say(\u{201c}ho\u{201d})",
        Made("say(\"ho\")\n", QUOTES),
    ),
    case("a curly apostrophe", "it\u{2019}s old\n", "it's old", "it's new", Made("it\u{2019}s new\n", QUOTES)),
    case("a long dash", "one \u{2014} two\n", "one - two", "one - three", Made("one \u{2014} three\n", QUOTES)),
    case(
        "a space that does not break",
        "10\u{a0}km far\n",
        "10 km far",
        "10 km near",
        Made("10\u{a0}km near\n", QUOTES),
    ),
    case("a minus sign", "x \u{2212} 1\n", "x - 1", "x - 2", Made("x \u{2212} 2\n", QUOTES)),
    case(
        "quotes and indentation",
        "  say(\u{201c}hi\u{201d})\n  b\n",
        "say(\"hi\")\nb",
        "say(\"hi\")\nc",
        Made("  say(\u{201c}hi\u{201d})\n  c\n", TRIMMED),
    ),
    case("ragged indentation", " a\n   b\n  c\n", "a\nb\nc", "a\nb\nd", Made(" a\n   b\n d\n", TRIMMED)),
    case(
        "line numbers of read_file",
        "a\nb\nc\n",
        "     1\ta\n     2\tb\n",
        "     1\ta\n     2\tx\n",
        Made("a\nx\nc\n", "line numbers"),
    ),
    case("line numbers in the old text only", "a\nb\nc\n", "     2\tb", "x", Made("a\nx\nc\n", "line numbers")),
    case(
        "line numbers and spaces",
        "a \nb\n",
        "1\ta\n2\tb",
        "1\tx\n2\tb",
        Made("x\nb\n", "line numbers and white space at the ends of lines"),
    ),
    case("a blank line in front", "a\nb\nc\n", "\n\nb\n", "x\n", Made("a\nx\nc\n", "blank lines around it")),
    case("a blank line behind", "a\nb", "b\n\n", "c\n\n", Made("a\nc", "blank lines around it")),
    case(
        "escaped twice",
        "say(\"a\");\nb\n",
        "say(\\\"a\\\");\\nb",
        "say(\\\"c\\\");\\nb",
        Made("say(\"c\");\nb\n", "one level of backslashes"),
    ),
    case(
        "an escape of the file survives",
        "p(\"a\\n\")\n",
        "p(\\\"a\\\\n\\\")",
        "p(\\\"b\\\\n\\\")",
        Made("p(\"b\\n\")\n", "one level of backslashes"),
    ),
    case(
        "windows line endings and spaces",
        "a \r\nb\r\nc\r\n",
        "a\nb",
        "a\nx\ny",
        Made("a \r\nx\r\ny\r\nc\r\n", TRAILING),
    ),
    case("windows line endings and indentation", "  a\r\n  b\r\n", "a\nb", "a\nc", Made("  a\r\n  c\r\n", INDENT)),
    case("two places if spaces are ignored", "a \nb\na \nb\n", "a\nb", "x", Refused(SEVERAL)),
    case("two places if indentation is ignored", "  a\n  b\n\n    a\n    b\n", "a\nb", "x", Refused(SEVERAL)),
    case("two places with other quotes", "\u{201c}a\u{201d} \u{201e}a\u{201f}\n", "\"a\"", "b", Refused(SEVERAL)),
    case("another word", "let a = 1;\nlet b = 2;\n", "let a = 1;\nlet c = 2;", "x", Refused(MISSING)),
    case("other line breaks", "f(a,\n  b)\n", "f(a, b)", "f(b)", Refused(MISSING)),
    case("white space inside of a line", "a  =  1\n", "a = 1", "a = 2", Refused(MISSING)),
    case("nothing but white space", "a\n\nb\n", "   \n   ", "x", Refused(MISSING)),
];

#[test]
fn inexact_edits_apply_only_where_the_place_is_unique() {
    let mut wrong = Vec::new();
    for Case { name, file, old, new, expected } in MISSES {
        let edit = Edit { old_text: old.to_owned(), new_text: new.to_owned(), replace_all: false };
        let result = apply(file, &[edit], 1000, Matching::Lenient);
        match (expected, result) {
            (Made(text, ignored), Ok(replaced)) => {
                let note = format!("`old_text` did not match exactly; it was found by ignoring {ignored}");
                let notes = if ignored.is_empty() { Vec::new() } else { vec![note] };
                if (replaced.text.as_str(), &replaced.notes) != (text, &notes) {
                    wrong.push(format!("{name} became {replaced:?}"));
                }
            }
            (Refused(reason), Err(actual)) if actual.starts_with(reason) => {}
            (Made(..) | Refused(_), Err(reason)) => wrong.push(format!("{name} was refused: {reason}")),
            (Refused(_), Ok(replaced)) => wrong.push(format!("{name} was made: {replaced:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_case_but_one_contains_its_old_text_exactly() {
    let exact = MISSES.iter().filter(|case| case.file.contains(case.old)).map(|case| case.name);
    assert_eq!(exact.collect::<Vec<_>>(), ["one line without its indentation is a part of it"]);
}
