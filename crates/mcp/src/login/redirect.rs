//! Reads the address to which the browser is sent at the end of a login. Pure.

use std::fmt;

use reqwest::Url;

use super::{LoginError, plain};

/// The longest address that is read, in bytes.
pub(crate) const MAX_ADDRESS_BYTES: usize = 16 << 10;

/// What the authorization server reports through the browser. The code is secret, so `Debug` hides
/// it.
pub struct Redirected {
    pub(crate) state: String,
    pub(crate) issuer: Option<String>,
    /// The code, or the reason of a refusal.
    pub(crate) answer: Result<String, String>,
}

impl fmt::Debug for Redirected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redirected").finish_non_exhaustive()
    }
}

impl Redirected {
    /// Reads an address that a user pasted. It must be the one at which this login expects the
    /// browser.
    ///
    /// # Errors
    ///
    /// If it is another address, or carries no code.
    pub fn pasted(text: &str, redirect_uri: &str) -> Result<Self, LoginError> {
        let wrong = LoginError::Redirect("it should begin like the page that the browser could not load");
        let text = text.trim();
        if text.len() > MAX_ADDRESS_BYTES {
            return Err(LoginError::Redirect("it is too long"));
        }
        let (Ok(url), Ok(expected)) = (Url::parse(text), Url::parse(redirect_uri)) else { return Err(wrong) };
        if url.origin() != expected.origin() || url.path() != expected.path() {
            return Err(wrong);
        }
        Self::of(&url)
    }

    /// Reads the parameters of an address. A parameter that is there twice is refused, because two
    /// readers could understand it differently.
    pub(crate) fn of(url: &Url) -> Result<Self, LoginError> {
        let mut found = [("code", None), ("state", None), ("iss", None), ("error", None), ("error_description", None)];
        for (name, value) in url.query_pairs() {
            if let Some((_, slot)) = found.iter_mut().find(|(known, _)| *known == name)
                && slot.replace(value.into_owned()).is_some()
            {
                return Err(LoginError::Redirect("a parameter is there twice"));
            }
        }
        let [code, state, issuer, error, description] = found.map(|(_, value)| value);
        let state = state.ok_or(LoginError::Redirect("it has no `state`"))?;
        let answer = match (code, error) {
            (Some(code), None) if !code.is_empty() => Ok(code),
            (_, Some(error)) => Err(match description {
                Some(description) => format!("{} ({})", plain(&description), plain(&error)),
                None => plain(&error),
            }),
            (_, None) => return Err(LoginError::Redirect("it has no `code`")),
        };
        Ok(Self { state, issuer, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "http://127.0.0.1:4711/callback";

    fn read(text: &str) -> Result<Redirected, String> {
        Redirected::pasted(text, URI).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pasted_address_has_code_and_state() {
        let read = read(&format!("  {URI}?state=s%201&code=c%2Fd&iss=https%3A%2F%2Fa.example\n")).unwrap();
        assert_eq!((read.state.as_str(), read.issuer.as_deref()), ("s 1", Some("https://a.example")));
        assert_eq!(read.answer.as_deref(), Ok("c/d"));
        assert!(!format!("{read:?}").contains("c/d"));
    }

    #[test]
    fn a_refusal_is_read_without_control_characters() {
        let read = read(&format!("{URI}?state=s&error=access_denied&error_description=no%1b[2Jthanks")).unwrap();
        assert_eq!(read.answer, Err("no\\u{1b}[2Jthanks (access_denied)".to_owned()));
    }

    #[test]
    fn other_addresses_and_incomplete_ones_are_refused() {
        for (text, why) in [
            ("http://127.0.0.1:4712/callback?code=c&state=s".to_owned(), "begin like"),
            ("https://127.0.0.1:4711/callback?code=c&state=s".to_owned(), "begin like"),
            ("http://127.0.0.1:4711/other?code=c&state=s".to_owned(), "begin like"),
            ("http://a.example/callback?code=c&state=s".to_owned(), "begin like"),
            ("c".to_owned(), "begin like"),
            (format!("{URI}?code=c"), "no `state`"),
            (format!("{URI}?state=s"), "no `code`"),
            (format!("{URI}?state=s&code="), "no `code`"),
            (format!("{URI}?state=s&code=a&code=b"), "twice"),
            (format!("{URI}?state=s&state=t&code=a"), "twice"),
            (format!("{URI}?state=s&code={}", "x".repeat(MAX_ADDRESS_BYTES)), "too long"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
