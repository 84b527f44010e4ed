//! Hides what looks like a secret in a message, so a key in the wrong place does not end up in the
//! error about it. Pure.

use std::borrow::Cow;

/// Replaces hidden words.
pub const HIDDEN: &str = "(hidden)";

/// The prefixes of keys and tokens of well-known services.
const PREFIXES: [&str; 16] = [
    "sk-",
    "sk_",
    "pk-",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "AIza",
    "hf_",
    "gsk_",
    "eyJ",
];

/// The shortest word with a known prefix that counts as a key.
const SHORTEST_KNOWN: usize = 8;

/// The shortest run of mixed letters and digits that counts as random.
const SHORTEST_RANDOM: usize = 16;

/// Replaces every word that looks like a key or a token by `(hidden)`.
pub fn secrets(text: &str) -> Cow<'_, str> {
    if !words(text).any(looks_secret) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(word) = words(rest).find(|word| looks_secret(word)) {
        let start = word.as_ptr() as usize - rest.as_ptr() as usize;
        shown.push_str(&rest[..start]);
        shown.push_str(HIDDEN);
        rest = &rest[start + word.len()..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Whether a word looks like a key or a token: it has a known prefix, or a long part that mixes
/// letters and digits.
pub fn looks_secret(word: &str) -> bool {
    let known = word.len() >= SHORTEST_KNOWN && PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    let random = |part: &str| {
        part.len() >= SHORTEST_RANDOM
            && part.bytes().any(|byte| byte.is_ascii_digit())
            && part.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    known || word.split(['-', '_']).any(random)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hidden_and_names_are_not() {
        assert_eq!(secrets("found `sk-ant-api03-abc`, twice: sk-12345678."), "found `(hidden)`, twice: (hidden).");
        assert_eq!(secrets("token=9f86d081884c7d659a2feaa0c55ad015"), "token=(hidden)");
        for harmless in [
            "/home/me/.config/acpd/config.toml:3: session.mode: unknown value `fulll`, expected full, safe",
            "claude-sonnet-4-5-20250929 and 0197c0de-0000-7000-8000-0123456789ab",
            "ANTHROPIC_API_KEY, sk-, a_very_long_name_without_any_digit",
        ] {
            assert_eq!(secrets(harmless), harmless);
        }
    }
}
