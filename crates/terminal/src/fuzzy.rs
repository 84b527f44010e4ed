//! Scores how well a name matches a few typed letters, for lists to choose from. Pure.

/// Scores how well the query fits the text: the letters of each word must occur there in order.
/// Consecutive letters, and letters at the start of a word, score higher. Returns None if a word
/// does not fit.
pub(crate) fn score(query: &str, text: &str) -> Option<i64> {
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
}
