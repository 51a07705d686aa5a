//! The debug types of `-debug` and `-debug-only`.

/// Which debug types are told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct DebugTypes {
    /// Whether anything is told.
    is_on: bool,
    /// The types that were named, each with its level; 0 takes a type out.
    named: Vec<(String, Option<u32>)>,
}

impl DebugTypes {
    /// Everything is told, but for what was named or will be.
    pub(crate) fn all(&mut self) {
        self.is_on = true;
    }

    /// Types with commas between them, each with an optional level: `jitlink,orc:1`. An empty
    /// list says nothing.
    pub(crate) fn only(&mut self, list: &str) {
        self.is_on |= !list.is_empty();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let (name, level) = match word.split_once(':') {
                // A level that is no number is none.
                Some((name, "")) => (name, Some(0)),
                Some((name, level)) => (name, level.parse().ok()),
                None => (word, None),
            };
            self.named.push((name.to_owned(), level));
        }
    }

    /// Whether a type is told.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_in = |level: Option<u32>| level.is_none_or(|level| level > 0);
        let named = self.named.iter().find(|(known, _)| known == name);
        self.is_on
            && match named {
                Some((_, level)) => is_in(*level),
                // Where types were only taken out, the others stay.
                None => !self.named.iter().any(|(_, level)| is_in(*level)),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::DebugTypes;

    fn only(list: &str) -> DebugTypes {
        let mut types = DebugTypes::default();
        types.only(list);
        types
    }

    #[test]
    fn nothing_is_told_unasked() {
        assert!(!DebugTypes::default().has("orc"));
        assert!(!only("").has("orc"));
    }

    #[test]
    fn types_are_named_or_taken_out() {
        assert!(only("jitlink").has("jitlink") && !only("jitlink").has("orc"));
        assert!(only("a,,orc").has("orc") && only("orc:1").has("orc"));
        assert!(!only("orc:0").has("orc") && only("orc:0").has("jitlink"));
        assert!(!only("orc:").has("orc") && !only("orc:0,a").has("jitlink"));
        assert!(only("orc:x").has("orc"));
        let mut all = DebugTypes::default();
        all.all();
        assert!(all.has("orc") && all.has("anything"));
    }
}
