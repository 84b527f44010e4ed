//! Recognises pasted text that the terminal does not mark: its letters arrive faster than anybody
//! types. Pure: the times are arguments.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::Key;

/// Keys that arrive within this time of each other were pasted.
const PASTE_KEY_INTERVAL: Duration = Duration::from_millis(50);

/// When keys arrived. A letter answers a question only if it arrived alone.
#[derive(Default)]
pub(super) struct Pace {
    last: Option<Instant>,
}

impl Pace {
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
        if counted > 1 || follows {
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
