//! Reads the few fields of a message that a program needs in order to pass it on.
//!
//! It looks for keys at three fixed depths and copies nothing, so a large body costs one scan.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::shallow;

/// Where a message belongs: its id, method, session and position in the log.
#[derive(Debug, Default)]
pub struct Envelope<'a> {
    /// The id as it was written. `null` is an id, too.
    pub id: Option<&'a RawValue>,
    pub method: Option<Cow<'a, str>>,
    /// `params.sessionId`, or `result.sessionId` of a reply.
    pub session: Option<Cow<'a, str>>,
    /// `params._meta.acpd.at`: life and number of the event behind an update.
    pub at: Option<(u32, u64)>,
    /// Whether the message answers a request.
    pub is_reply: bool,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of a message. Returns `None` if the bytes are not a JSON object.
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(frame).ok()?;
        let [id, method, params, result, error] =
            shallow::fields(text, ["id", "method", "params", "result", "error"]).ok()?;
        let is_error = error.is_some_and(|error| error.get() != "null");
        let is_reply = method.is_none() && (result.is_some() || is_error);
        let body = if is_reply { result } else { params };
        let [session, meta] = inside(body, ["sessionId", "_meta"]);
        let [acpd] = inside(meta, ["acpd"]);
        let [at] = inside(acpd, ["at"]);
        Some(Self {
            id,
            method: method.and_then(shallow::text),
            session: session.and_then(shallow::text),
            at: at.and_then(|at| serde_json::from_str(at.get()).ok()),
            is_reply,
        })
    }
}

/// The named fields of a value; all `None` if it is not an object.
fn inside<'a, const N: usize>(value: Option<&'a RawValue>, names: [&str; N]) -> [Option<&'a RawValue>; N] {
    value.and_then(|value| shallow::fields(value.get(), names).ok()).unwrap_or([None; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_shows_its_session_and_position() {
        let frame = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"_meta":{"acpd":{"at":[9,9]}}},"_meta":{"acpd":{"at":[1,42]}}}}"#;
        let envelope = Envelope::read(frame).unwrap();
        assert!(envelope.id.is_none());
        assert_eq!(envelope.method.as_deref(), Some("session/update"));
        assert_eq!(envelope.session.as_deref(), Some("s"));
        assert_eq!(envelope.at, Some((1, 42)));
        assert!(!envelope.is_reply);
    }

    #[test]
    fn a_reply_shows_its_id_and_the_session_that_it_opened() {
        let envelope = Envelope::read(br#"{"id":1.0,"result":{"sessionId":"a\u0062"}}"#).unwrap();
        assert_eq!(envelope.id.map(RawValue::get), Some("1.0"));
        assert_eq!(envelope.session.as_deref(), Some("ab"));
        assert!(envelope.is_reply);
    }

    #[test]
    fn fields_of_odd_shapes_count_as_missing() {
        let odd = Envelope::read(br#"{"id":null,"method":7,"params":[1],"result":1}"#).unwrap();
        assert_eq!(odd.id.map(RawValue::get), Some("null"));
        assert!(odd.method.is_none() && odd.session.is_none() && odd.at.is_none() && !odd.is_reply);
        assert!(Envelope::read(b"[]").is_none());
        assert!(Envelope::read(b"{\"id\":1").is_none());
        assert!(Envelope::read(b"\xff").is_none());
    }
}
