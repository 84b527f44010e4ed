//! Translates what the child agent of a hosted session does. The child's own data is passed on
//! unchanged, as far as the protocol allows.

use agent_client_protocol_schema::v1 as acp;
use domain::hosted::{CallFields, CallStatus, HostedEvent, OfferPart};
use domain::state::OpenCall;
use domain::{CallId, Event};
use serde_json::{Value, json};

use super::Translator;
use crate::translator::Outbound;
use crate::v1::encode::{content, session_options, value};

impl Translator {
    pub(super) fn hosted(&mut self, event: &Event, hosted: &HostedEvent) -> Vec<Outbound> {
        match hosted {
            HostedEvent::Opened { offer, .. } => {
                self.session_options.hosted.get_or_insert_default().replace(offer);
                // A client that has just opened the session received all of it with the answer.
                let is_live = event.number > self.head;
                if is_live { self.offered_anew(event) } else { Vec::new() }
            }
            HostedEvent::Unprompted | HostedEvent::Paused | HostedEvent::Resumed => Vec::new(),
            HostedEvent::Called { call, first, fields, .. } => vec![self.reported(event, call, *first, fields)],
            HostedEvent::Offered { part } => {
                self.session_options.hosted.get_or_insert_default().change(part);
                self.offered(part).into_iter().map(|update| self.update(event, &update)).collect()
            }
            HostedEvent::Relayed { update, version: 1 } => vec![self.update(event, update)],
            HostedEvent::Relayed { .. } => Vec::new(),
        }
    }

    /// The updates for the choices of a child that was restarted.
    fn offered_anew(&self, event: &Event) -> Vec<Outbound> {
        let Some(offer) = &self.session_options.hosted else { return Vec::new() };
        let mode = offer.modes.as_ref().and_then(|modes| modes.get("currentModeId")?.as_str());
        let mode = mode.and_then(|mode| self.offered(&OfferPart::Mode(mode.to_owned())));
        let options = offer.options.clone().and_then(|options| self.offered(&OfferPart::Options(options)));
        let changes: Vec<Value> = mode.into_iter().chain(options).collect();
        self.updates(event, &changes)
    }

    /// The update for a changed choice, if the protocol has one for it and the child's data is
    /// valid.
    fn offered(&self, part: &OfferPart) -> Option<Value> {
        match part {
            OfferPart::Mode(mode) => Some(json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode })),
            OfferPart::Model(_) => None,
            OfferPart::Options(options) => {
                session_options::hosted_options(Some(options), self.session_options.switches)
                    .map(|options| json!({ "sessionUpdate": "config_option_update", "configOptions": options }))
            }
            OfferPart::Commands(commands) => session_options::valid::<Vec<acp::AvailableCommand>>(Some(commands))
                .map(|commands| json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })),
        }
    }

    /// The update for a report about a call: as the child sent it, except for terminals that this
    /// client cannot show.
    fn reported(&mut self, event: &Event, call: &CallId, first: bool, fields: &CallFields) -> Outbound {
        let is_over = fields.status.is_some_and(CallStatus::is_over);
        let open = self.calls.entry(call.clone());
        let open = open.or_insert_with(|| OpenCall::new(fields.card()));
        fields.apply_to(&mut open.card);
        let (title, kind) = (open.card.title.clone(), open.card.kind);
        let announces = first && self.announced.insert(call.clone());
        if is_over {
            self.calls.remove(call);
            self.announced.remove(call);
        }
        let mut update = json!({ "toolCallId": call });
        update["sessionUpdate"] = json!(if announces { "tool_call" } else { "tool_call_update" });
        if announces || fields.title.is_some() {
            update["title"] = json!(title);
        }
        if announces || fields.kind.is_some() {
            update["kind"] = value(&content::kind(kind));
        }
        let status = fields.status.or(announces.then_some(CallStatus::Pending));
        if let Some(status) = status {
            update["status"] = json!(status);
        }
        if let Some(shown) = &fields.content {
            update["content"] = value(&content::tool_content(shown, self.live(event)));
        }
        if let Some(locations) = &fields.locations {
            update["locations"] = locations.iter().map(|location| value(&content::location(location))).collect();
        }
        for (name, given) in [("rawInput", &fields.input), ("rawOutput", &fields.output), ("_meta", &fields.meta)] {
            if let Some(given) = given {
                update[name] = given.clone();
            }
        }
        self.update(event, &update)
    }
}
