//! Tests of what each mode offers, and of the tools' schemas.

use domain::tool::AGENT;

use super::*;
use crate::settings::FileWrites;

fn names(mode: Mode) -> String {
    let offer = Registry::new(ToolSettings::new("/bin/false")).offer(&SessionId::new(), mode);
    offer.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn policy_knows_every_tool_by_name_and_kind() {
    let tools: Vec<_> = built_in().iter().map(|tool| (tool.name(), tool.kind())).collect();
    assert_eq!(tools, policy::built_in::TOOLS);
}

#[test]
fn each_mode_offers_its_tools() {
    assert_eq!(
        names(Mode::Full),
        "read_file list_files glob grep write_file edit_file apply_patch delete_file move_file bash bash_output \
         bash_input bash_stop agent web_fetch update_plan memory ask_user switch_mode propose_plan skill recall"
    );
    assert_eq!(
        names(Mode::Sandbox),
        "read_file list_files glob grep write_file edit_file apply_patch delete_file move_file bash bash_output \
         bash_input bash_stop agent update_plan memory ask_user switch_mode propose_plan skill recall"
    );
    assert_eq!(
        names(Mode::Safe),
        "read_file list_files glob grep write_file edit_file apply_patch delete_file move_file web_fetch update_plan \
         memory ask_user switch_mode propose_plan skill recall"
    );
    assert_eq!(
        names(Mode::ReadOnly),
        "read_file list_files glob grep agent web_fetch update_plan memory ask_user switch_mode propose_plan skill recall"
    );
    assert_eq!(names(Mode::Plan), names(Mode::ReadOnly));
    assert_eq!(names(Mode::ReadOffline), names(Mode::ReadOnly).replace("web_fetch ", ""));
    let mut settings = ToolSettings::new("/bin/false");
    settings.sandbox.file_writes = FileWrites::Deny;
    let offer = Registry::new(settings).offer(&SessionId::new(), Mode::Sandbox);
    assert!(!offer.iter().any(|spec| ["write_file", "edit_file", "delete_file", "move_file"].contains(&&*spec.name)));
}

#[test]
fn tools_are_described_once_for_all_offers_and_again_after_a_reload() {
    let mut settings = ToolSettings::new("/bin/false");
    let registry = Registry::new(settings.clone());
    let bash = || registry.offer(&SessionId::new(), Mode::Full).into_iter().find(|spec| spec.name == BASH).unwrap();
    let first = bash();
    assert!(Arc::ptr_eq(&first, &bash()));
    settings.bash.timeout = std::time::Duration::from_millis(4_321);
    registry.reload(settings);
    assert!(!first.description.contains("4321") && bash().description.contains("4321"));
}

/// The tool `agent` is left out: a sub-agent has at most the rights of the mode that starts it.
#[test]
fn a_sub_agent_is_offered_only_what_its_own_mode_and_its_callers_offer() {
    let modes = || Mode::ALL.into_iter().chain([Mode::ReadOffline]);
    for (one, other) in modes().flat_map(|one| modes().map(move |other| (one, other))) {
        let both = names(one.within(other));
        let (one_offers, other_offers) = (names(one), names(other));
        for tool in both.split(' ').filter(|tool| *tool != AGENT) {
            let has = |names: &str| names.split(' ').any(|name| name == tool);
            assert!(has(&one_offers) && has(&other_offers), "{one:?} within {other:?} offers {tool}");
        }
    }
}

/// A rename that replaces words without looking has once left the name of a type there.
#[test]
fn every_description_begins_with_what_the_tool_does() {
    for tool in built_in() {
        let description = tool.spec(&ToolSettings::new("acpd")).description;
        let verb = description.split(' ').next().unwrap();
        assert!(verb.ends_with('s'), "{}: {verb}", tool.name());
    }
}

#[test]
fn every_schema_is_an_object_that_describes_each_property() {
    for spec in Registry::new(ToolSettings::new("/bin/false")).offer(&SessionId::new(), Mode::Full) {
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        for (name, property) in spec.schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{}.{name} has no description", spec.name);
        }
        for required in spec.schema["required"].as_array().unwrap() {
            assert!(spec.schema["properties"].get(required.as_str().unwrap()).is_some(), "{}", spec.name);
        }
    }
}
