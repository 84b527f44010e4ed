//! A stream of text for the count of allocations and for the bench.

use std::collections::BTreeMap;

use acpd_wire::answer_data::SessionOptions;
use acpd_wire::frame::{Framing, encode};
use acpd_wire::translator::{TranslatorStart, Viewer};
use acpd_wire::{ClientCapabilities, Outbound, ProtocolVersion, Translator};
use bytes::Bytes;
use domain::{Approval, Event, EventKind, ExtraSet, Millis, Mode, ModelId};

/// Returns this many pieces of one message, each with 16 bytes of text.
pub(crate) fn pieces(count: u64) -> Vec<Event> {
    let kind = || EventKind::AgentText { message: "m".into(), text: "sixteen bytes.. ".to_owned() };
    (1..=count).map(|number| Event { life: 1, number, at: Millis(1_735_689_600_000), kind: kind() }).collect()
}

/// Returns a translator at the beginning of a session that is shown live.
pub(crate) fn translator(version: ProtocolVersion) -> Translator {
    let session_options = SessionOptions {
        models: Vec::new(),
        mode: Mode::Full,
        approval: Approval::Ask,
        model: ModelId::from("model"),
        thought: Default::default(),
        agent: None,
        hosted: None,
        switches: false,
        extras: ExtraSet::ALL,
    };
    let viewer = Viewer {
        connection: "c".into(),
        bridge: None,
        with_positions: false,
        capabilities: ClientCapabilities::default(),
        extras: ExtraSet::ALL,
    };
    let start = TranslatorStart {
        session: "s".into(),
        cwd: "/w".into(),
        next: 1,
        turn: None,
        background: BTreeMap::new(),
        viewer,
        session_options,
        head: 0,
        own_from: 1,
        open_calls: Vec::new(),
        delegated: BTreeMap::new(),
        open_questions: Vec::new(),
    };
    Translator::new(version, start)
}

/// Translates the events into frames, as a connection sends them.
pub(crate) fn frames(translator: &mut Translator, events: &[Event]) -> Vec<Bytes> {
    let mut frames = Vec::with_capacity(events.len());
    for event in events {
        for outbound in translator.translate(event) {
            if let Outbound::Update(update) = outbound {
                frames.push(encode(Framing::Lines, &update));
            }
        }
    }
    frames
}
