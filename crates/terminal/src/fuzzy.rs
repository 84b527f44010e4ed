//! Finds names by a few of their letters, and the names most similar to one that does not exist.

use similar::TextDiff;

/// Scores how well the query fits the text: the letters of each word must occur there in order.
/// Consecutive letters, and letters at the start of a word, score higher. Returns None if a word
/// does not fit.
pub fn score(query: &str, text: &str) -> Option<i64> {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    query.to_lowercase().split_whitespace().map(|word| word_score(word, &text)).sum()
}

fn word_score(word: &str, text: &[char]) -> Option<i64> {
    let letters: Vec<char> = word.chars().collect();
    // The best score over all positions where the word can begin.
    let starts = (0..text.len()).filter(|start| Some(&text[*start]) == letters.first());
    starts.filter_map(|start| from(start, &letters, text)).max()
}

fn from(start: usize, letters: &[char], text: &[char]) -> Option<i64> {
    let mut total = 0;
    let mut at = start;
    let mut last = None;
    for letter in letters {
        at += text.get(at..)?.iter().position(|other| other == letter)?;
        let begins_word = at.checked_sub(1).is_none_or(|before| !text[before].is_alphanumeric());
        let follows = last.is_some_and(|last| last + 1 == at);
        total += if follows { 8 } else { 1 } + if begins_word { 6 } else { 0 };
        if let Some(last) = last {
            total -= i64::try_from(at - last - 1).unwrap_or(i64::MAX).min(5);
        }
        last = Some(at);
        at += 1;
    }
    Some(total)
}

/// Returns at most three names that the user may have meant, best first.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = given.to_lowercase();
    let alike = |name: &str| {
        let name = name.to_lowercase();
        let ratio = |one: &str, other: &str| TextDiff::from_chars(one, other).ratio();
        match (lower.split_once('/'), name.split_once('/')) {
            _ if !lower.is_empty() && name.contains(&lower) => 1.0,
            // In the id of a model, the part after the provider counts most, because all models of
            // a provider begin alike.
            (Some((maker, model)), Some((other, part))) => (ratio(maker, other) + 3.0 * ratio(model, part)) / 4.0,
            (None, Some((_, part))) => ratio(&lower, &name).max(ratio(&lower, part)),
            (_, None) => ratio(&lower, &name),
        }
    };
    let mut found: Vec<(f32, &str)> = names.into_iter().map(|name| (alike(name), name)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_order_fit_and_words_fit_better() {
        assert!(score("fp", "fix the parser").is_some() && score("pf", "fix the parser").is_none());
        assert!(score("parser fix", "fix the parser").is_some());
        assert!(score("par", "fix the parser") > score("par", "p and a and r"));
        assert_eq!(score("", "anything"), Some(0));
        assert!(score("x", "").is_none());
    }

    #[test]
    fn near_names_are_named() {
        let names = ["anthropic/claude-sonnet-4-5", "openai/gpt-5", "rehearsal"];
        assert_eq!(nearest("claude-sonet-4.5", names), ["anthropic/claude-sonnet-4-5"]);
        assert_eq!(nearest("gpt5", names), ["openai/gpt-5"]);
        assert_eq!(nearest("antropic/claude-sonet", names), ["anthropic/claude-sonnet-4-5"]);
        assert_eq!(nearest("openai/xyz", names), [""; 0], "a provider's name alone is not near");
        assert_eq!(did_you_mean("reharsal", names).unwrap(), "did you mean `rehearsal`?");
        assert_eq!(did_you_mean("zzz", names), None);
    }
}
