//! Counts the values of a JSON text without parsing it.
//!
//! A value that takes two bytes in a message takes some hundred once it is parsed, so a limit in
//! bytes alone does not bound the memory that a message takes.

/// The most values of a message from a program that acpd runs or a server that it connects to.
pub const MAX_VALUES: usize = 250_000;

/// Counts the values of valid JSON, names of members included, but not further than `most + 1`.
pub fn count_values(text: &[u8], most: usize) -> usize {
    let mut values = 0;
    let mut in_string = false;
    let mut escaped = false;
    let mut in_word = false;
    for byte in text {
        let begins = match byte {
            _ if escaped => {
                escaped = false;
                false
            }
            b'\\' if in_string => {
                escaped = true;
                false
            }
            b'"' => {
                in_string = !in_string;
                in_string
            }
            _ if in_string => false,
            b'[' | b'{' => true,
            b',' | b':' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' => {
                in_word = false;
                false
            }
            // A number, or a word such as `true`.
            _ => !std::mem::replace(&mut in_word, true),
        };
        if begins {
            values += 1;
            if values > most {
                break;
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        assert_eq!(count_values(br#""a,b:[{\",""#, 9), 1);
        assert_eq!(count_values(br#"{"a":[1, -2.5e3,true],"b,": {}}"#, 99), 8);
        assert_eq!(count_values(&[b'['; 50], 9), 10);
    }
}
