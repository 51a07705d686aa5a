//! `cargo xtask suites`: the peers' own tests and benches, which lie beside the project
//! (`../shared/suites`, or the folder that `CLINCH_SUITES_DIR` names), run on a release build.

use crate::shell::{self, Failure, Result};
use std::fs;
use std::path::Path;

/// Lists the suites, or runs one with arguments.
pub(crate) fn run(arguments: &[String]) -> Result {
    let folder = shell::suites_folder().ok_or_else(|| {
        Failure::new("no folder ../shared/suites; name another with CLINCH_SUITES_DIR")
    })?;
    let names = suites(&folder)?;
    let Some((name, rest)) = arguments.split_first() else {
        println!("suites in {}:", folder.display());
        for name in &names {
            println!("  {name:<26}{}", about(&folder.join(name)));
        }
        return Ok(());
    };
    if !names.contains(name) {
        return Err(Failure::new(format!(
            "no suite `{name}`; `cargo xtask suites` lists them"
        )));
    }
    let clinch = shell::release_build()?;
    shell::run(
        shell::command(folder.join(name))
            .args(rest)
            .env("CLINCH", clinch),
    )
}

/// The programs in the folder, by name.
fn suites(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.contains('.') && shell::is_executable(&entry.path()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The first line of a script's own description.
fn about(script: &Path) -> String {
    let text = fs::read_to_string(script).unwrap_or_default();
    let line = text.lines().nth(1).unwrap_or_default();
    line.trim_start_matches(['"', '#', ' '])
        .trim_end_matches(['"', ' '])
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_only() {
        let folder = std::env::temp_dir().join(format!("xtask-suites-{}", std::process::id()));
        fs::create_dir_all(folder.join("skip")).unwrap();
        for (name, mode) in [
            ("b_suite", 0o755),
            ("a_suite", 0o755),
            ("note", 0o644),
            ("x.py", 0o755),
        ] {
            let file = folder.join(name);
            fs::write(&file, "#!/bin/sh\n# Does it all.\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(suites(&folder).unwrap(), ["a_suite", "b_suite"]);
        assert_eq!(about(&folder.join("a_suite")), "Does it all.");
        fs::remove_dir_all(&folder).unwrap();
    }
}
