//! Closes a schema: objects have the fields that it defines, and unions the variants that it names.

use serde_json::{Map, Value, json};

/// Marks the closed form of a definition, for use as the root of a message.
const CLOSED: &str = "closed-";

/// The name of a definition's closed form.
pub(crate) fn closed(name: &str) -> String {
    format!("{CLOSED}{name}")
}

/// Closes all parts of the document, and adds the closed form of each definition.
///
/// A definition itself stays open, because others combine it with their own fields. Instead, the
/// places that refer to it are closed, with `unevaluatedProperties`, which takes all parts of a
/// combination into account.
pub(crate) fn close(document: &mut Value) {
    let open = document.clone();
    let Some(definitions) = document["$defs"].as_object_mut() else { return };
    definitions.values_mut().for_each(|definition| close_parts(definition, &open));
    let names: Vec<String> = definitions.keys().cloned().collect();
    for name in names {
        let mut form = json!({ "$ref": format!("#/$defs/{name}") });
        seal(&mut form, &open);
        definitions.insert(closed(&name), form);
    }
}

/// Closes the parts of a schema that describe the parts of a value. The schema of the value itself
/// stays open.
fn close_parts(schema: &mut Value, open: &Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    for union in ["anyOf", "oneOf"] {
        if let Some(variants) = schema.get_mut(union).and_then(Value::as_array_mut) {
            variants.retain_mut(is_named);
        }
    }
    for combination in ["anyOf", "oneOf", "allOf"] {
        for part in schema.get_mut(combination).and_then(Value::as_array_mut).into_iter().flatten() {
            close_parts(part, open);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in properties.into_iter().flat_map(Map::values_mut) {
        close_parts(field, open);
        seal(field, open);
    }
    for each in ["items", "additionalProperties"] {
        if let Some(each) = schema.get_mut(each).filter(|each| each.is_object()) {
            close_parts(each, open);
            seal(each, open);
        }
    }
}

/// Whether a variant is one that the protocol names. A text beginning with `_` counts as one: such
/// values are reserved for implementations.
fn is_named(variant: &mut Value) -> bool {
    if !matches!(variant["title"].as_str(), Some("other" | "unknown")) {
        return true;
    }
    let is_text = variant["type"] == "string";
    if is_text {
        variant["pattern"] = json!("^_");
    }
    is_text
}

/// Forbids the fields of an object that no part of the schema defines.
fn seal(schema: &mut Value, open: &Value) {
    let is_reference = ["$ref", "properties", "allOf", "anyOf", "oneOf"].iter().any(|key| schema.get(key).is_some());
    if is_reference && !takes_anything(schema, open) {
        schema["unevaluatedProperties"] = json!(false);
    }
}

/// Whether a schema accepts any value.
fn takes_anything(schema: &Value, open: &Value) -> bool {
    let parts = |combination: &str| schema[combination].as_array().into_iter().flatten();
    if let Some(name) = schema["$ref"].as_str().and_then(|place| place.strip_prefix("#/$defs/")) {
        return takes_anything(&open["$defs"][name], open);
    }
    if schema.get("anyOf").or(schema.get("oneOf")).is_some() {
        return parts("anyOf").chain(parts("oneOf")).any(|variant| takes_anything(variant, open));
    }
    if schema.get("allOf").is_some() {
        return parts("allOf").all(|part| takes_anything(part, open)) && schema.get("properties").is_none();
    }
    ["type", "const", "enum", "properties"].iter().all(|key| schema.get(key).is_none())
}
