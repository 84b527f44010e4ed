//! `recall`: searches the session's log for earlier messages and calls that compaction has removed
//! from the conversation.

use std::sync::Arc;

use domain::recall::{RECALL, RecallRequest};
use domain::text::cut;
use domain::tool::{Job, ToolHost, ToolSpec};
use domain::{Access, CallId, Outcome, ToolCard, ToolKind};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input};

/// The most words in a query.
const WORDS: usize = 16;

pub(crate) struct RecallTool;

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    query: Option<String>,
    #[serde(default, alias = "call", alias = "id")]
    result: Option<String>,
    #[serde(default, deserialize_with = "input::number")]
    offset: Option<u64>,
}

impl Tool for RecallTool {
    fn name(&self) -> &'static str {
        RECALL
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Search
    }

    fn verb(&self) -> &'static str {
        "Recall"
    }

    fn spec(&self, _settings: &ToolSettings) -> ToolSpec {
        ToolSpec {
            name: self.name().to_owned(),
            description: "Finds what was said and done earlier in this session and is no longer in the conversation, because older \
                messages were replaced by a summary or outcomes were removed. `query` searches messages, calls and outcomes \
                for all of its words; `result` shows the outcome of one call again. A sub-agent can search only \
                its own calls. Files may have changed since: read them instead of recalling them."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words that must all occur, whatever their case is. Example: port 8080"},
                    "result": {"type": "string", "description": "The id of a call, as shown in place of its outcome."},
                    "offset": {"type": "integer", "minimum": 0, "description": "With `result`: the first byte to show. Default 0."}
                },
                "required": []
            }),
            read_only: true,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let Input { query, result, offset } = input::parse(&call.input)?;
        let filled = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let (title, request) = match (filled(result), filled(query)) {
            (Some(id), _) => {
                let offset = usize::try_from(offset.unwrap_or(0)).unwrap_or(usize::MAX);
                let call = CallId::from(id.trim_matches(['`', ' ']));
                ("Recall the outcome of a call".to_owned(), RecallRequest::Result { call, offset })
            }
            (None, Some(query)) => {
                let words = query.split_whitespace().take(WORDS).map(str::to_owned).collect();
                (format!("Recall \"{}\"", cut(&query, 80)), RecallRequest::Search { words })
            }
            (None, None) => return Err(RefusalReason("give `query` or `result`".to_owned())),
        };
        let card = ToolCard {
            tool: self.name().to_owned(),
            title,
            kind: self.kind(),
            locations: Vec::new(),
            preview: Vec::new(),
            access: Access::Free,
            input: call.input,
        };
        Ok(Box::new(RecallJob { card, request }))
    }
}

struct RecallJob {
    card: ToolCard,
    request: RecallRequest,
}

impl Job for RecallJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        host.recall(self.request)
    }
}
