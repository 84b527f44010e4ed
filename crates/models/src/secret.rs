//! A secret text whose `Debug` hides it. It does not know its source; `key` does.

use std::fmt;

use serde::{Deserialize, Deserializer};

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself. The caller is responsible for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Removes every occurrence of the secret from a text whose author has seen it.
    pub fn scrub(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        String::deserialize(source).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_from_debug_and_scrubbed_from_text() {
        let secret = Secret::new("sk-123");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "[hidden] Some([hidden])");
        assert_eq!(secret.scrub("bad key sk-123, sk-123!"), "bad key [key], [key]!");
        assert_eq!(Secret::new("").scrub("as it is"), "as it is");
    }
}
