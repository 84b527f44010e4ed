//! Newtype ids. Each is a short string that is cheap to clone; new ones are time-ordered UUIDs.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// A fresh id, unique across daemon lives.
            pub fn new() -> Self {
                Self(uuid::Uuid::now_v7().to_string().into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// One conversation, for as long as its history exists.
    SessionId
);
id!(
    /// One prompt and all that follows from it. Chosen by the connection that sends the prompt.
    TurnId
);
id!(
    /// One tool call of the model.
    CallId
);
id!(
    /// One message of the user, or one response of the model.
    MessageId
);
id!(
    /// One permission question.
    QuestionId
);
id!(
    /// One client's connection to the daemon.
    ConnectionId
);
id!(
    /// A model as users name it, `provider/model` or a bare name.
    ModelId
);

/// Where an event stands in its session's log.
///
/// Numbers grow by one within a session. A session that was opened after an unclean end starts a new life, so that a
/// number which an editor saw but the disk did not is never confused with the event that took its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    pub life: u32,
    pub number: u64,
}
