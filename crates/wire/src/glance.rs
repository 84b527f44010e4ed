//! What the bridge reads of a message that it only passes on. It sees keys at three fixed places and builds nothing.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::shallow;

/// The little that the bridge needs to know of a message.
#[derive(Debug, Default)]
pub struct Glance<'a> {
    /// As it was written; `null` is an id, too.
    pub id: Option<&'a RawValue>,
    pub method: Option<Cow<'a, str>>,
    /// `params.sessionId`, or `result.sessionId` of a reply.
    pub session: Option<Cow<'a, str>>,
    /// `params._meta.acpd.at`: life and number of the event behind an update.
    pub at: Option<(u32, u64)>,
    /// An answer to a request of ours.
    pub is_reply: bool,
}

/// None if the bytes are not a JSON object.
pub fn glance(frame: &[u8]) -> Option<Glance<'_>> {
    let text = std::str::from_utf8(frame).ok()?;
    let [id, method, params, result, error] =
        shallow::fields(text, ["id", "method", "params", "result", "error"]).ok()?;
    let is_error = error.is_some_and(|error| error.get() != "null");
    let is_reply = method.is_none() && (result.is_some() || is_error);
    let body = if is_reply { result } else { params };
    let [session, meta] = inside(body, ["sessionId", "_meta"]);
    let [acpd] = inside(meta, ["acpd"]);
    let [at] = inside(acpd, ["at"]);
    Some(Glance {
        id,
        method: method.and_then(shallow::text),
        session: session.and_then(shallow::text),
        at: at.and_then(|at| serde_json::from_str(at.get()).ok()),
        is_reply,
    })
}

/// The named fields of a value, none of them if it is no object.
fn inside<'a, const N: usize>(value: Option<&'a RawValue>, names: [&str; N]) -> [Option<&'a RawValue>; N] {
    value.and_then(|value| shallow::fields(value.get(), names).ok()).unwrap_or([None; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_shows_its_session_and_place() {
        let frame = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"_meta":{"acpd":{"at":[9,9]}}},"_meta":{"acpd":{"at":[1,42]}}}}"#;
        let glance = glance(frame).unwrap();
        assert!(glance.id.is_none());
        assert_eq!(glance.method.as_deref(), Some("session/update"));
        assert_eq!(glance.session.as_deref(), Some("s"));
        assert_eq!(glance.at, Some((1, 42)));
        assert!(!glance.is_reply);
    }

    #[test]
    fn a_reply_shows_its_id_and_the_session_that_it_opened() {
        let glance = glance(br#"{"id":1.0,"result":{"sessionId":"a\u0062"}}"#).unwrap();
        assert_eq!(glance.id.map(RawValue::get), Some("1.0"));
        assert_eq!(glance.session.as_deref(), Some("ab"));
        assert!(glance.is_reply);
    }

    #[test]
    fn odd_shapes_are_seen_as_nothing_rather_than_refused() {
        let odd = glance(br#"{"id":null,"method":7,"params":[1],"result":1}"#).unwrap();
        assert_eq!(odd.id.map(RawValue::get), Some("null"));
        assert!(odd.method.is_none() && odd.session.is_none() && odd.at.is_none() && !odd.is_reply);
        assert!(glance(b"[]").is_none());
        assert!(glance(b"{\"id\":1").is_none());
        assert!(glance(b"\xff").is_none());
    }
}
