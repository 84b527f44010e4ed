//! Finds the names most similar to one that does not exist. Pure.

use std::collections::BTreeSet;

/// The letters of a name that are compared.
const COMPARED: usize = 200;

/// A name that contains this much of the given one is similar to it.
const LONG_ENOUGH: usize = 3;

/// Returns at most three names that the user may have meant, best first.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = given.to_lowercase();
    let alike = |name: &str| {
        let name = name.to_lowercase();
        match (lower.split_once('/'), name.split_once('/')) {
            _ if !lower.is_empty() && name.starts_with(&lower) => 2.0,
            _ if lower.len() >= LONG_ENOUGH && name.contains(&lower) => 1.0,
            // In the id of a model, the part after the provider counts most, because all models of
            // a provider begin alike.
            (Some((maker, model)), Some((other, part))) => (ratio(maker, other) + 3.0 * ratio(model, part)) / 4.0,
            (None, Some((_, part))) => ratio(&lower, &name).max(ratio(&lower, part)),
            (_, None) => ratio(&lower, &name),
        }
    };
    let mut known = BTreeSet::new();
    let names = names.into_iter().filter(|name| known.insert(*name));
    let mut found: Vec<(f32, &str)> = names.map(|name| (alike(name), name)).collect();
    found.retain(|(ratio, _)| *ratio > 0.6);
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Returns "did you mean a, b or c?", or None if no name is similar.
pub fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = nearest(given, names);
    let (last, others) = near.split_last()?;
    let list = if others.is_empty() { format!("`{last}`") } else { format!("`{}` or `{last}`", others.join("`, `")) };
    Some(format!("did you mean {list}?"))
}

/// Returns how much two names have in common, from 0 to 1: twice the length of their longest common
/// subsequence, divided by the sum of their lengths.
fn ratio(one: &str, other: &str) -> f32 {
    let letters = |name: &str| name.chars().take(COMPARED).collect::<Vec<char>>();
    let (one, other) = (letters(one), letters(other));
    let mut row = vec![0_u16; other.len() + 1];
    for letter in &one {
        let mut diagonal = 0;
        for (at, candidate) in other.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if letter == candidate { diagonal + 1 } else { above.max(row[at]) };
            diagonal = above;
        }
    }
    let lengths = u16::try_from(one.len() + other.len()).unwrap_or(u16::MAX);
    if lengths == 0 { 1.0 } else { 2.0 * f32::from(row[other.len()]) / f32::from(lengths) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested() {
        let names = ["anthropic/claude-sonnet-4-5", "openai/gpt-5", "rehearsal"];
        assert_eq!(nearest("claude-sonet-4.5", names), ["anthropic/claude-sonnet-4-5"]);
        assert_eq!(nearest("gpt5", names), ["openai/gpt-5"]);
        assert_eq!(nearest("gpt5", [names, names].concat()), ["openai/gpt-5"], "each name is suggested once");
        assert_eq!(nearest("antropic/claude-sonet", names), ["anthropic/claude-sonnet-4-5"]);
        assert_eq!(nearest("openai/xyz", names), [""; 0], "a provider's name alone is not near");
        let commands = ["help", "compact", "mode", "model", "mcp"];
        assert_eq!(nearest("hlep", commands), ["help"]);
        assert_eq!(nearest("modle", commands), ["mode", "model"]);
        assert_eq!(nearest("m", commands), ["mode", "model", "mcp"], "a name that begins like this comes first");
        assert_eq!(nearest("bogus", commands), [""; 0]);
        assert_eq!(did_you_mean("reharsal", names).unwrap(), "did you mean `rehearsal`?");
        assert_eq!(did_you_mean("zzz", names), None);
    }

    #[test]
    fn the_ratio_counts_common_letters_in_their_order() {
        assert!((ratio("abcd", "bcde") - 0.75).abs() < 1e-6);
        assert!((ratio("", "") - 1.0).abs() < 1e-6 && ratio("a", "b") < 1e-6);
    }
}
