//! Recognises pasted text that the terminal does not mark: its letters arrive faster than anybody
//! types. Pure: the times are arguments.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::Key;

/// Keys that arrive within this time of each other were pasted.
const PASTE_KEY_INTERVAL: Duration = Duration::from_millis(50);

/// How long after pasted letters another letter counts as pasted, too, if only answers are
/// expected: a slow connection delivers a long paste with pauses.
const AFTER_PASTE: Duration = Duration::from_secs(1);

/// When keys arrived. A letter answers a question only if it arrived alone.
#[derive(Default)]
pub(super) struct Pace {
    last: Option<Instant>,
    /// When letters last arrived together. Recorded only if only answers are expected.
    pasted: Option<Instant>,
    only_answers: bool,
}

impl Pace {
    /// Creates the pace for a time in which only answers are expected, which are single keys.
    pub(super) fn of_answers() -> Self {
        Self { only_answers: true, ..Self::default() }
    }

    /// Adds keys that arrived now to those that are not returned yet. Letters that did not arrive
    /// alone become pasted ones. Enter may follow a letter, because many users press it.
    pub(super) fn add(&mut self, typed: &mut VecDeque<Key>, arrived: Vec<Key>, now: Instant) {
        if arrived.is_empty() {
            return;
        }
        let in_time = self.last.is_some_and(|last| now < last + PASTE_KEY_INTERVAL);
        // Only letters count: Enter ends a line, and the end of a marked paste is known.
        if arrived.iter().any(|key| matches!(key, Key::Letter(_))) {
            self.last = Some(now);
        }
        let follows = in_time && typed.is_empty() && arrived[0] != Key::Enter;
        typed.extend(arrived);
        let counted = typed.len() - usize::from(typed.back() == Some(&Key::Enter));
        let together = counted > 1 || follows;
        if together && self.only_answers && self.last == Some(now) {
            self.pasted = Some(now);
        }
        let belongs = self.pasted.is_some_and(|pasted| now < pasted + AFTER_PASTE);
        if together || belongs {
            for key in typed {
                if let Key::Letter(letter) = *key {
                    *key = Key::Pasted(letter);
                }
            }
        }
    }

    /// Returns when a letter that was read is known to have arrived alone.
    pub(super) fn settled(&self, now: Instant) -> Instant {
        self.last.map_or(now, |last| last + PASTE_KEY_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds keys at these milliseconds, and returns all of them. Each is returned once it has
    /// settled.
    fn paced(arrivals: &[(u64, &[Key])]) -> Vec<Key> {
        let (mut pace, mut typed, mut all) = (Pace::default(), VecDeque::new(), Vec::new());
        let start = Instant::now();
        for (at, keys) in arrivals {
            let now = start + Duration::from_millis(*at);
            if pace.settled(now) <= now {
                all.extend(typed.drain(..));
            }
            pace.add(&mut typed, keys.to_vec(), now);
        }
        all.extend(typed);
        all
    }

    #[test]
    fn a_key_that_arrives_alone_stays_a_letter() {
        let (y, n) = (Key::Letter('y'), Key::Letter('n'));
        assert_eq!(paced(&[(0, &[y]), (50, &[n])]), [y, n]);
        assert_eq!(paced(&[(0, &[y, Key::Enter])]), [y, Key::Enter]);
        assert_eq!(paced(&[(0, &[y]), (1, &[Key::Enter])]), [y, Key::Enter]);
        assert_eq!(paced(&[(0, &[y]), (60, &[Key::Enter]), (61, &[n])]), [y, Key::Enter, n]);
    }

    #[test]
    fn a_key_after_a_marked_paste_is_a_letter() {
        let (pasted, n) = ([Key::Pasted('a'), Key::NewLine, Key::Pasted('b')], Key::Letter('n'));
        let all = paced(&[(0, &pasted), (1, &[Key::Enter]), (2, &[n])]);
        assert_eq!(all.last(), Some(&n));
    }

    #[test]
    fn letters_that_arrive_together_are_pasted() {
        let (y, n) = (Key::Letter('y'), Key::Letter('n'));
        let pasted = [Key::Pasted('y'), Key::Pasted('n')];
        assert_eq!(paced(&[(0, &[y, n])]), pasted);
        assert_eq!(paced(&[(0, &[y]), (49, &[n])]), pasted);
        let lines = [Key::Pasted('y'), Key::NewLine, Key::Pasted('n'), Key::Enter];
        assert_eq!(paced(&[(0, &[y, Key::NewLine]), (10, &[n, Key::Enter])]), lines);
    }

    #[test]
    fn where_only_answers_are_typed_a_letter_soon_after_a_paste_belongs_to_it() {
        let y = [Key::Letter('y')];
        let answer = |pace: Pace, at: u64| {
            let (mut pace, mut typed, start) = (pace, VecDeque::new(), Instant::now());
            pace.add(&mut typed, vec![Key::Letter('a'); 9], start);
            // Keys in between do not make the wait longer.
            for millis in [at / 2, at] {
                typed.clear();
                pace.add(&mut typed, y.to_vec(), start + Duration::from_millis(millis));
            }
            typed[0]
        };
        assert_eq!(answer(Pace::of_answers(), 999), Key::Pasted('y'));
        assert_eq!(answer(Pace::of_answers(), 1000), y[0]);
        assert_eq!(answer(Pace::default(), 200), y[0], "a line may be typed fast");
    }

    #[test]
    fn the_last_letter_of_a_paste_answers_nothing_although_the_rest_was_discarded() {
        let mut pace = Pace::default();
        let start = Instant::now();
        let mut typed = VecDeque::new();
        pace.add(&mut typed, vec![Key::Letter('a'); 4096], start);
        typed.clear();
        pace.add(&mut typed, vec![Key::Letter('y')], start + Duration::from_millis(20));
        assert_eq!(typed, [Key::Pasted('y')]);
    }
}
