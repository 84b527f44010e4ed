//! Rewords serde's errors for people who write configuration files. Pure. A value of the wrong type
//! is named by its kind and never quoted, because it may be a key in the wrong place.

use crate::redact;

/// Returns what was expected in plain words. Serde names a Rust type where no `expecting` text was
/// given.
pub fn expected(expected: &str) -> String {
    match expected {
        "an integer" => "a whole number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a floating point" => "a number".to_owned(),
        unsigned if unsigned.starts_with("an unsigned") => "a whole number that is not negative".to_owned(),
        signed if signed.contains("bit or less") => "a smaller whole number".to_owned(),
        rust if rust.starts_with("struct ") => "a table".to_owned(),
        rust if rust.starts_with("enum ") => "one of the known words".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the kind of the value that was found, taken from the first word of serde's description.
pub fn found(unexpected: &str) -> &'static str {
    let kinds = [
        ("string", "a string"),
        ("boolean", "true or false"),
        ("floating", "a number"),
        ("sequence", "a list"),
        ("map", "a table"),
        ("unit", "nothing"),
    ];
    kinds.iter().find(|(start, _)| unexpected.starts_with(start)).map_or("a number", |(_, kind)| kind)
}

/// Rewords a message of serde about a value of the wrong type or an unknown word.
pub fn plain(text: &str) -> String {
    if let Some((given, known)) =
        text.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected "))
    {
        return format!("unknown value `{}`, expected {}", redact::secrets(given), known.replace('`', ""));
    }
    // The crate `config` reports an unknown enum variant without listing the known ones.
    if let Some((_, given)) = text.strip_prefix("enum ").and_then(|rest| rest.split_once(" variant constructor ")) {
        return format!("unknown value `{}`", redact::secrets(given));
    }
    // The found value may itself contain ", expected ", and the expectation cannot, so this splits
    // at the last one.
    let wrong = text.strip_prefix("invalid type: ").and_then(|rest| rest.rsplit_once(", expected "));
    match wrong {
        Some((unexpected, wanted)) => format!("expected {}, found {}", expected(wanted), found(unexpected)),
        None => redact::secrets(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_wrong_type_is_named_by_its_kind() {
        let cases = [
            ("invalid type: string \"pass, expected word\", expected struct Hook", "expected a table, found a string"),
            ("invalid type: integer `12345678`, expected a sequence", "expected a list, found a number"),
            ("unknown variant `x`, expected `a` or `b`", "unknown value `x`, expected a or b"),
            ("unknown variant `sk-12345678`, expected `a`", "unknown value `(hidden)`, expected a"),
            ("enum Kind does not have variant constructor x", "unknown value `x`"),
            ("the rule `bash(` is odd", "the rule `bash(` is odd"),
        ];
        for (given, said) in cases {
            assert_eq!(plain(given), said);
        }
    }
}
