//! Everything that can be wrong with an archive.

/// What is wrong with an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveErrorKind {
    /// It does not begin with `!<arch>` or `!<thin>`.
    #[error("not an archive")]
    Magic,
    /// Fewer bytes are left than a member header has.
    #[error("truncated archive member header")]
    TruncatedHeader,
    /// A member header does not end with a backquote and a newline.
    #[error("archive member header lacks its terminator")]
    Terminator,
    /// The size in a member header is not a decimal number.
    #[error("archive member has no valid size")]
    Size,
    /// A member extends over the end of the file.
    #[error("archive member of {size} bytes extends past the end of the file")]
    PastEnd {
        /// The size the header states.
        size: u64,
    },
    /// A `#1/` name is longer than the member or has no valid length.
    #[error("archive member has a bad #1/ name length")]
    BsdName,
    /// A name refers to the long-name table, and there is none.
    #[error("archive member refers to a long name, but the archive has no table of them")]
    NoLongNames,
    /// A name refers to a place outside of the long-name table, or not to a number.
    #[error("archive member refers to a bad place in the long-name table")]
    LongName,
    /// An offset leads to the index, the long-name table or the like.
    #[error("offset leads to a special archive member")]
    SpecialMember,
    /// The index is too small for what it says it holds.
    #[error("archive index is truncated or its count is too large")]
    IndexSize,
    /// A name of the index lies outside of its strings or has no end.
    #[error("archive index has a name outside of its string table")]
    IndexName,
    /// The index leads to a place where no member can be.
    #[error("archive index refers to offset {member:#x}, where no member can be")]
    IndexOffset {
        /// The offset it states.
        member: u64,
    },
    /// The index has more names than the lookup table takes.
    #[error("archive index is larger than 4 GiB")]
    IndexTooLarge,
}
