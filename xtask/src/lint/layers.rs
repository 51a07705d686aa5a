//! The rule that a crate uses only crates of lower layers, so that its reason to exist stays one.

use super::Finding;
use super::dependencies::{Manifest, Manifests};

/// Each crate's layer. Crates of one layer do not see each other.
static LAYERS: &[(&str, u32)] = &[
    ("clinch-graph", 1),
    ("clinch-target", 2),
    ("clinch-bitstream", 2),
    ("clinch-object", 3),
    ("clinch-ir", 3),
    ("clinch-link", 4),
    ("clinch-passes", 4),
    ("clinch-plugin", 5),
    ("clinch-plugin-sdk", 5),
    ("clinch-lto", 5),
    ("clinch-executor", 5),
    ("clinch-ld", 6),
    ("clinch-jit", 6),
    ("clinch", 7),
];

/// Crates for development: they may use anything, and are used in tests only.
static FOR_DEVELOPMENT: &[&str] = &["clinch-testkit", "xtask", "clinch-fuzz"];

/// Looks at every crate's dependencies on crates of the workspace.
pub(super) fn check(manifests: &Manifests) -> Vec<Finding> {
    manifests.all.iter().flat_map(check_one).collect()
}

fn check_one(manifest: &Manifest) -> Vec<Finding> {
    if is_for_development(&manifest.name) {
        return Vec::new();
    }
    let Some(own) = layer(&manifest.name) else {
        let text = format!(
            "crate {} has no layer: add it to xtask/src/lint/layers.rs",
            manifest.name
        );
        return vec![Finding::new(&manifest.path, 1, text)];
    };
    let ours = manifest
        .dependencies
        .iter()
        .filter(|dependency| dependency.is_ours);
    ours.filter(|dependency| dependency.kind != "dev")
        .filter_map(|dependency| {
            let name = &dependency.name;
            let text = if is_for_development(name) {
                format!("{name} is for tests: a dev-dependency only")
            } else {
                match layer(name) {
                    Some(layer) if layer < own => return None,
                    Some(layer) => format!("layer {own} must not use {name} of layer {layer}"),
                    None => format!("{name} has no layer"),
                }
            };
            Some(Finding::new(&manifest.path, manifest.line_of(name), text))
        })
        .collect()
}

fn layer(name: &str) -> Option<u32> {
    LAYERS
        .iter()
        .find(|(crate_name, _)| *crate_name == name)
        .map(|&(_, layer)| layer)
}

fn is_for_development(name: &str) -> bool {
    FOR_DEVELOPMENT.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::dependencies::Dependency;

    fn texts(name: &str, uses: &[(&str, &'static str)]) -> Vec<String> {
        let text: String = uses
            .iter()
            .map(|(name, _)| format!("{name}.workspace = true\n"))
            .collect();
        let dependencies = uses
            .iter()
            .map(|&(name, kind)| Dependency::ours(name, kind))
            .collect();
        let manifest = Manifest::new("Cargo.toml", name, &text, dependencies);
        check_one(&manifest)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn only_downwards() {
        let good = [("clinch-graph", "normal"), ("clinch-target", "normal")];
        assert!(texts("clinch-object", &good).is_empty());
        let found = texts(
            "clinch-object",
            &[("clinch-graph", "normal"), ("clinch-link", "normal")],
        );
        assert_eq!(
            found,
            ["Cargo.toml:2: error: layer 3 must not use clinch-link of layer 4"]
        );
        assert_eq!(texts("clinch-jit", &[("clinch-ld", "normal")]).len(), 1);
    }

    #[test]
    fn development_only_in_tests() {
        assert!(texts("clinch-object", &[("clinch-testkit", "dev")]).is_empty());
        assert_eq!(
            texts("clinch-object", &[("clinch-testkit", "normal")]).len(),
            1
        );
        assert_eq!(
            texts("clinch-object", &[("clinch-testkit", "build")]).len(),
            1
        );
        assert!(texts("clinch-testkit", &[("clinch", "normal")]).is_empty());
    }

    #[test]
    fn unknown_crates_are_told() {
        assert!(texts("clinch-new", &[])[0].contains("has no layer"));
    }
}
