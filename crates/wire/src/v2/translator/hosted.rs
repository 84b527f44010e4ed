//! Translates what the child agent of a hosted session does into version 2. Forms that differ
//! are converted, and updates of version 1 that acpd does not understand are omitted.

use domain::CallId;
use domain::hosted::{CallFields, CallStatus, HostedEvent, OfferPart};
use serde_json::{Value, json};

use super::{EventOutput, ShownCall, Translator};
use crate::v2::encode::{self, content, session_options};
use crate::{child, v1};

impl Translator {
    pub(super) fn hosted(&mut self, hosted: &HostedEvent, is_live: bool, output: &mut EventOutput) {
        match hosted {
            HostedEvent::Opened { offer, .. } => {
                self.session_options.hosted.get_or_insert_default().replace(offer);
                if is_live {
                    output.update(self.options_update());
                }
            }
            HostedEvent::Called { call, fields, .. } => output.update(self.reported(call, fields)),
            HostedEvent::Offered { part } => {
                self.session_options.hosted.get_or_insert_default().change(part);
                output.update(match part {
                    OfferPart::Mode(_) | OfferPart::Model(_) | OfferPart::Options(_) => self.options_update(),
                    OfferPart::Commands(commands) => encode::commands_update(&child::read_commands(commands)),
                });
            }
            HostedEvent::Relayed { update, version: 2 } => output.update(update.clone()),
            HostedEvent::Paused | HostedEvent::Resumed => {
                if let Some(turn) = &mut self.turn {
                    turn.is_paused = matches!(hosted, HostedEvent::Paused);
                }
            }
            HostedEvent::Unprompted | HostedEvent::Relayed { .. } => {}
        }
    }

    fn options_update(&self) -> Value {
        json!({ "sessionUpdate": "config_option_update", "configOptions": session_options::options(&self.session_options) })
    }

    fn reported(&mut self, id: &CallId, fields: &CallFields) -> Value {
        let open = self.calls.entry(id.clone()).or_insert_with(|| ShownCall::new(fields.card(), false));
        fields.apply_to(&mut open.card);
        open.is_started |= fields.status == Some(CallStatus::InProgress);
        let (title, kind) = (open.card.title.clone(), open.card.kind);
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "title": title });
        if fields.kind.is_some() {
            update["kind"] = json!(v1::encode::content::kind(kind));
        }
        if let Some(status) = fields.status {
            update["status"] = json!(status);
        }
        if let Some(shown) = &fields.content {
            update["content"] = content::tool_contents(shown, kind).into();
        }
        if let Some(locations) = &fields.locations {
            update["locations"] = locations.iter().map(content::location).collect();
        }
        for (name, given) in [("rawInput", &fields.input), ("rawOutput", &fields.output), ("_meta", &fields.meta)] {
            if let Some(given) = given {
                update[name] = given.clone();
            }
        }
        if fields.status.is_some_and(CallStatus::is_over) {
            self.calls.remove(id);
        }
        update
    }
}
