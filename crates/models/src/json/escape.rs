//! Escapes texts for JSON, as `serde_json` does, but many bytes at a time. Pure.
//!
//! Most bytes of a text need no escape. They are found in words of eight bytes and copied as runs.

const WORD: usize = size_of::<u64>();

/// A word whose bytes are all 1.
const ONES: u64 = u64::MAX / 255;

/// A word with the highest bit of each byte.
const HIGH_BITS: u64 = ONES * 0x80;

/// Returns how many bytes the text has with its escapes, without quotes. It works on words because
/// the compiler does not vectorise a loop over bytes in every build of the program.
pub(super) fn escaped_len(text: &str) -> usize {
    let (words, rest) = text.as_bytes().as_chunks::<WORD>();
    let bytewise = |bytes: &[u8]| bytes.iter().map(|byte| usize::from(added_by(*byte))).sum::<usize>();
    let added = words.iter().map(|bytes| {
        let word = u64::from_le_bytes(*bytes);
        if to_escape(word) == 0 {
            return 0;
        }
        // The sums of seven bits do not carry into the next byte, so every mark is exact.
        let low_bits = |word: u64| word & !HIGH_BITS;
        let control = !((low_bits(word) + ONES * 0x60) | word) & HIGH_BITS;
        let equal = |byte: u8| {
            let differing = word ^ (ONES * u64::from(byte));
            !((low_bits(differing) + ONES * 0x7f) | differing) & HIGH_BITS
        };
        let short = equal(b'"') | equal(b'\\') | equal(b'\n') | equal(b'\t');
        match control & !short {
            0 => marked(short),
            _ => bytewise(bytes),
        }
    });
    text.len() + added.sum::<usize>() + bytewise(rest)
}

/// Returns how many bytes of the word are marked with their highest bits.
fn marked(marks: u64) -> usize {
    // The product's highest byte is the sum of all bytes. Counting the bits takes longer without an
    // instruction that not every processor has.
    ((marks >> 7).wrapping_mul(ONES) >> 56) as usize
}

/// Returns how many bytes the escape of this byte adds.
fn added_by(byte: u8) -> u8 {
    let is_short = (byte == b'"') | (byte == b'\\') | matches!(byte, 0x08..=0x0a | 0x0c | 0x0d);
    let is_control = byte < 0x20;
    u8::from(is_short) + 5 * u8::from(is_control & !is_short)
}

/// Appends a part of a text with its escapes. The part may begin and end within a character.
pub(super) fn push_escaped(to: &mut Vec<u8>, mut part: &[u8]) {
    loop {
        let (plain, rest) = part.split_at(plain_len(part));
        to.extend_from_slice(plain);
        let Some((byte, rest)) = rest.split_first() else { return };
        push_escape(to, *byte);
        part = rest;
    }
}

/// Returns how many bytes there are before the first one that needs an escape.
fn plain_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<WORD>();
    for (at, word) in words.iter().enumerate() {
        let found = to_escape(u64::from_le_bytes(*word));
        if found != 0 {
            return at * WORD + found.trailing_zeros() as usize / 8;
        }
    }
    let in_rest = rest.iter().position(|byte| added_by(*byte) > 0).unwrap_or(rest.len());
    words.len() * WORD + in_rest
}

/// Marks the bytes that need an escape with their highest bits. Only the lowest mark is sure: a
/// borrow may mark the bytes above it, too.
fn to_escape(word: u64) -> u64 {
    let less_than = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| less_than(word ^ (ONES * u64::from(byte)), 1);
    (less_than(word, 0x20) | equal(b'"') | equal(b'\\')) & HIGH_BITS
}

fn push_escape(to: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            let digit = |of: u8| DIGITS[usize::from(of & 0xf)];
            return to.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte)]);
        }
    };
    to.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &str) -> String {
        let mut bytes = vec![b'"'];
        push_escaped(&mut bytes, text.as_bytes());
        bytes.push(b'"');
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn every_character_of_one_byte_is_escaped_at_every_position_in_a_word() {
        for (byte, at) in (0..0x80_u8).flat_map(|byte| (0..2 * WORD).map(move |at| (byte, at))) {
            for around in ["a", "\u{1f}", "\u{7f}", "ü", "!", "#", "["] {
                let text = format!("{}{}{}", around.repeat(at), char::from(byte), around.repeat(20));
                let expected = serde_json::to_string(&text).unwrap();
                assert_eq!(escaped(&text), expected, "{text:?}");
                assert_eq!(escaped_len(&text) + 2, expected.len(), "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_text_is_escaped_as_serde_json_does(text in "([a-z \"\\\\\\n\\t]|[\\x00-\\x7f]|\\PC){0,100}") {
            let expected = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(escaped(&text), expected.as_str());
            prop_assert_eq!(escaped_len(&text) + 2, expected.len());
        }
    }
}
