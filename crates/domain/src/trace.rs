//! The W3C Trace Context of a request whose trace began elsewhere. acpd only names it in its own
//! spans.

use std::fmt;

/// The ids of the trace and the parent span, in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    pub id: String,
    /// The span of the caller.
    pub parent: String,
}

impl Trace {
    /// Reads a `traceparent`: version, trace, parent and flags. Later versions may append more.
    /// Returns None for an invalid value, which the standard requires to be ignored silently.
    pub fn read(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let [version, id, parent, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let sized = is_hex(version, 2) && is_hex(id, 32) && is_hex(parent, 16) && is_hex(flags, 2);
        let known = version != "ff" && (version != "00" || parts.next().is_none());
        let named = [id, parent].iter().all(|digits| digits.bytes().any(|digit| digit != b'0'));
        (sized && known && named).then(|| Self { id: id.to_owned(), parent: parent.to_owned() })
    }
}

fn is_hex(digits: &str, length: usize) -> bool {
    digits.len() == length && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.id, self.parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_traceparent_is_read() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let read = Trace { id: trace.to_owned(), parent: parent.to_owned() };
        for good in [format!("00-{trace}-{parent}-01"), format!("cc-{trace}-{parent}-01-what-else")] {
            assert_eq!(Trace::read(&good), Some(read.clone()), "{good}");
        }
        for bad in [
            String::new(),
            format!("00-{trace}-{parent}"),
            format!("00-{trace}-{parent}-01-more"),
            format!("ff-{trace}-{parent}-01"),
            format!("00-{}-{parent}-01", trace.to_uppercase()),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}x-{parent}-01"),
        ] {
            assert_eq!(Trace::read(&bad), None, "{bad}");
        }
    }
}
