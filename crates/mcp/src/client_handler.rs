//! Handles what a server sends by itself: progress, log messages, changed lists, and requests for
//! roots and elicitation.

use std::sync::Arc;

use domain::editor::{Editor, Elicitation, Elicited, Form};
use domain::resource_link;
use domain::text::cut;
use rmcp::ClientHandler;
use rmcp::ErrorData;
#[expect(deprecated, reason = "servers of today still ask for roots and send their log")]
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomNotification, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, ListRootsResult, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, Root, RootsCapabilities, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::Value;

use crate::link::SharedServer;

pub(crate) struct McpClientHandler {
    pub(crate) name: String,
    pub(crate) shared: Arc<SharedServer>,
}

/// The longest question, and the longest progress text, in characters.
const LONGEST_MESSAGE: usize = 4000;
const LONGEST_PROGRESS: usize = 500;

/// The largest form or address, in bytes.
const LARGEST_FORM: usize = 64 << 10;

/// The longest id of a question, in bytes.
const LONGEST_ID: usize = 1000;

const URL_DONE: &str = "notifications/elicitation/complete";

#[expect(deprecated, reason = "servers of today still ask for roots and send their log")]
impl ClientHandler for McpClientHandler {
    fn get_info(&self) -> ClientConfig {
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.elicitation = Some(elicitation);
        ClientConfig::new(capabilities, Implementation::new("acpd", env!("CARGO_PKG_VERSION")))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let roots = self.shared.roots();
        Ok(ListRootsResult::new(roots.iter().map(|root| Root::new(resource_link::file_uri(root))).collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let Some((message, form)) = read(request) else { return Ok(declined()) };
        let can = |editor: &dyn Editor| match form {
            Form::Fields(_) => editor.capabilities().forms,
            Form::Page { .. } => editor.capabilities().pages,
        };
        let Some(mut asker) = self.shared.ask(can) else { return Ok(declined()) };
        let mut page = match &form {
            Form::Fields(_) => None,
            Form::Page { id, .. } => Some(self.shared.opens_page(id.clone(), asker.editor.clone())),
        };
        // The form looks like one of acpd, so the message names the server that asks.
        let message = format!("{}: {}", self.name, cut(&message, LONGEST_MESSAGE));
        let (editor, call) = (asker.editor.clone(), asker.call());
        tokio::select! {
            answer = editor.elicit(Elicitation { call, message, form }) => Ok(match answer {
                Ok(Elicited::Accepted(content)) => {
                    if let Some(page) = &mut page {
                        page.stays();
                    }
                    let mut result = ElicitResult::new(ElicitationAction::Accept);
                    result.content = content;
                    result
                }
                Ok(Elicited::Declined) | Err(_) => declined(),
                Ok(Elicited::Cancelled) => ElicitResult::new(ElicitationAction::Cancel),
            }),
            () = asker.ended() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_custom_notification(&self, notification: CustomNotification, _: NotificationContext<RoleClient>) {
        if notification.method == URL_DONE
            && let Some(id) = notification.params.as_ref().and_then(|params| params.get("elicitationId")?.as_str())
            // Only for a page that the user was asked to open, and only once, because a server may
            // repeat this at will.
            && let Some(editor) = self.shared.closes_page(id)
        {
            editor.complete_elicitation(id.to_owned());
        }
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let text = progress(params.message.as_deref(), params.progress, params.total);
        self.shared.progress(&params.progress_token, text);
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let level = format!("{:?}", params.level).to_lowercase();
        tracing::debug!(server = self.name, level, "a server wrote to its log");
        let text = match &params.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.shared.log.note(&format!("[{level}] {text}"));
        if params.level != LoggingLevel::Debug && !text.trim().is_empty() {
            self.shared.remark(cut(text.trim(), LONGEST_PROGRESS));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.shared.changed.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.shared.changed.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.shared.changed.notify_one();
    }
}

fn read(request: ElicitRequestParams) -> Option<(String, Form)> {
    match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema).ok()?;
            (schema.to_string().len() <= LARGEST_FORM).then_some((message, Form::Fields(schema)))
        }
        ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
            // The user must be able to see where the address leads.
            let web = url.starts_with("https://") || url.starts_with("http://");
            let fits = url.len() <= LARGEST_FORM && elicitation_id.len() <= LONGEST_ID;
            (web && fits).then_some((message, Form::Page { url, id: elicitation_id }))
        }
        _ => None,
    }
}

fn progress(message: Option<&str>, done: f64, total: Option<f64>) -> String {
    let amount = match total {
        Some(total) => format!("{done} of {total}"),
        None => done.to_string(),
    };
    match message {
        Some(message) if !message.trim().is_empty() => format!("{} ({amount})", cut(message.trim(), LONGEST_PROGRESS)),
        Some(_) | None => amount,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_the_message_if_there_is_one() {
        assert_eq!(progress(Some("copying"), 2.0, Some(5.0)), "copying (2 of 5)");
        assert_eq!(progress(None, 0.5, None), "0.5");
    }
}
