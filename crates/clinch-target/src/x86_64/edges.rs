//! The edge kinds of x86-64, the names as in JITLink where it has the kind. This list is the
//! specification; `fixup.rs` transcribes it.
//!
//! In the formulas *Target* is the target's address, *Fixup* that of the place, *GOT* that of the
//! GOT's base symbol, *TLS* that of the thread-local block's initial image and *TP* the thread
//! pointer, seen from a block at *TLS*. Arithmetic is modulo 2^64; the result is taken as signed
//! except where the field is a `uint`. Besides the errors listed, every kind that writes fails
//! when the field does not lie in the block.
//!
//! The formula of a request is that of the kind it becomes, with the table entry as the target.
//!
//! *Invariant:* of the kinds with the same value and width the plain one comes first, as
//! `Arch::kind_of` answers the first.

use crate::edge_table::edge_kinds;

edge_kinds! {
    // Addresses.

    /// The target's address.
    /// Fixup expression: Fixup <- Target + Addend : uint64
    /// Errors: none.
    Pointer64, POINTER64 = Absolute, WORD64, [];

    /// The target's address, which an instruction or a reader zero-extends.
    /// Fixup expression: Fixup <- Target + Addend : uint32
    /// Errors: the value does not fit an unsigned 32-bit integer.
    Pointer32, POINTER32 = Absolute, UINT32, [LOW];

    /// The target's address, which an instruction sign-extends.
    /// Fixup expression: Fixup <- Target + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    Pointer32Signed, POINTER32_SIGNED = Absolute, INT32, [LOW];

    /// The low 16 bits of a small value.
    /// Fixup expression: Fixup <- Target + Addend : word16
    /// Errors: the value fits neither a signed nor an unsigned 16-bit integer.
    Pointer16, POINTER16 = Absolute, WORD16, [];

    /// The low 8 bits of a small value.
    /// Fixup expression: Fixup <- Target + Addend : word8
    /// Errors: the value fits neither a signed nor an unsigned 8-bit integer.
    Pointer8, POINTER8 = Absolute, WORD8, [];

    // Distances.

    /// The distance from the place to the target.
    /// Fixup expression: Fixup <- Target - Fixup + Addend : int64
    /// Errors: none.
    Delta64, DELTA64 = Relative, WORD64, [];

    /// The distance from the place to the target.
    /// Fixup expression: Fixup <- Target - Fixup + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    Delta32, DELTA32 = Relative, INT32, [];

    /// The distance from the place to the target.
    /// Fixup expression: Fixup <- Target - Fixup + Addend : int16
    /// Errors: the value does not fit a signed 16-bit integer.
    Delta16, DELTA16 = Relative, INT16, [];

    /// The distance from the place to the target.
    /// Fixup expression: Fixup <- Target - Fixup + Addend : int8
    /// Errors: the value does not fit a signed 8-bit integer.
    Delta8, DELTA8 = Relative, INT8, [];

    /// The distance from the target to the place.
    /// Fixup expression: Fixup <- Fixup - Target + Addend : int64
    /// Errors: none.
    NegDelta64, NEG_DELTA64 = NegRelative, WORD64, [];

    /// The distance from the target to the place.
    /// Fixup expression: Fixup <- Fixup - Target + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    NegDelta32, NEG_DELTA32 = NegRelative, INT32, [];

    /// The distance from the GOT's base to the target.
    /// Fixup expression: Fixup <- Target - GOT + Addend : int64
    /// Errors: none.
    Delta64FromGOT, DELTA64_FROM_GOT = FromGot, WORD64, [];

    /// The distance from the GOT's base to the target.
    /// Fixup expression: Fixup <- Target - GOT + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    Delta32FromGOT, DELTA32_FROM_GOT = FromGot, INT32, [];

    // Sizes.

    /// The target's size.
    /// Fixup expression: Fixup <- Size(Target) + Addend : uint64
    /// Errors: none.
    Size64, SIZE64 = Size, WORD64, [];

    /// The target's size.
    /// Fixup expression: Fixup <- Size(Target) + Addend : uint32
    /// Errors: the value does not fit an unsigned 32-bit integer.
    Size32, SIZE32 = Size, UINT32, [];

    // Operands of instructions: the displacement counts from the end of its four bytes. The -4 is
    // this architecture's own and no part of the table's `Expr`.

    /// An operand relative to the instruction pointer, the last thing in its instruction.
    /// Fixup expression: Fixup <- Target - (Fixup + 4) + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    PCRel32, PCREL32 = Relative, INT32, [];

    /// A call or jump. The target may be replaced by a stub that jumps to it.
    /// Fixup expression: Fixup <- Target - (Fixup + 4) + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    BranchPCRel32, BRANCH_PCREL32 = Relative, INT32, [BRANCH];

    /// A call or jump to a stub that must be gone through.
    /// Fixup expression: Fixup <- Target - (Fixup + 4) + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    BranchPCRel32ToPtrJumpStub, BRANCH_PCREL32_TO_PTR_JUMP_STUB = Relative, INT32, [BRANCH];

    /// A call or jump to a stub that may be left out once the stub's target is known to be in
    /// reach.
    /// Fixup expression: Fixup <- Target - (Fixup + 4) + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    BranchPCRel32ToPtrJumpStubBypassable, BRANCH_PCREL32_TO_PTR_JUMP_STUB_BYPASSABLE =
        Relative, INT32, [BRANCH];

    /// A load, call or jump through a GOT entry by an instruction without REX prefix. The target
    /// is the entry.
    /// Fixup expression: Fixup <- Target - (Fixup + 4) + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    PCRel32GOTLoadRelaxable, PCREL32_GOT_LOAD_RELAXABLE = Relative, INT32, [RELAXABLE];

    /// The same by an instruction with a REX prefix, three bytes before the place.
    /// Fixup expression: Fixup <- Target - (Fixup + 4) + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    PCRel32GOTLoadREXRelaxable, PCREL32_GOT_LOAD_REX_RELAXABLE = Relative, INT32, [RELAXABLE];

    /// The same by an instruction with a REX2 prefix, which begins four bytes before the place
    /// (APX).
    /// Fixup expression: Fixup <- Target - (Fixup + 4) + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    PCRel32GOTLoadREX2Relaxable, PCREL32_GOT_LOAD_REX2_RELAXABLE = Relative, INT32, [RELAXABLE];

    /// A load of the address of a Mach-O thread-local variable's descriptor through a pointer, by
    /// an instruction with a REX prefix. The target is the pointer.
    /// Fixup expression: Fixup <- Target - (Fixup + 4) + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer.
    PCRel32TLVPLoadREXRelaxable, PCREL32_TLVP_LOAD_REX_RELAXABLE =
        Relative, INT32, [RELAXABLE TLS];

    // Requests for a GOT or PLT entry.

    /// Asks for a GOT entry and becomes [`DELTA32`] to it.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestGOTAndTransformToDelta32, REQUEST_GOT_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [], Got => DELTA32;

    /// Asks for a GOT entry and becomes [`DELTA64`] to it.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestGOTAndTransformToDelta64, REQUEST_GOT_AND_TRANSFORM_TO_DELTA64 =
        Relative, WORD64, [], Got => DELTA64;

    /// Asks for a GOT entry and becomes [`DELTA32_FROM_GOT`] to it.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestGOTAndTransformToDelta32FromGOT, REQUEST_GOT_AND_TRANSFORM_TO_DELTA32_FROM_GOT =
        FromGot, INT32, [], Got => DELTA32_FROM_GOT;

    /// Asks for a GOT entry and becomes [`DELTA64_FROM_GOT`] to it.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestGOTAndTransformToDelta64FromGOT, REQUEST_GOT_AND_TRANSFORM_TO_DELTA64_FROM_GOT =
        FromGot, WORD64, [], Got => DELTA64_FROM_GOT;

    /// Asks for a GOT entry and becomes [`PCREL32_GOT_LOAD_RELAXABLE`] to it.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestGOTAndTransformToPCRel32GOTLoadRelaxable,
        REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_RELAXABLE =
        Relative, INT32, [RELAXABLE], Got => PCREL32_GOT_LOAD_RELAXABLE;

    /// Asks for a GOT entry and becomes [`PCREL32_GOT_LOAD_REX_RELAXABLE`] to it.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestGOTAndTransformToPCRel32GOTLoadREXRelaxable,
        REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_REX_RELAXABLE =
        Relative, INT32, [RELAXABLE], Got => PCREL32_GOT_LOAD_REX_RELAXABLE;

    /// Asks for a GOT entry and becomes [`PCREL32_GOT_LOAD_REX2_RELAXABLE`] to it.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestGOTAndTransformToPCRel32GOTLoadREX2Relaxable,
        REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_REX2_RELAXABLE =
        Relative, INT32, [RELAXABLE], Got => PCREL32_GOT_LOAD_REX2_RELAXABLE;

    /// Asks for a PLT entry and becomes [`DELTA64_FROM_GOT`] to it (large code model).
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestPLTAndTransformToDelta64FromGOT, REQUEST_PLT_AND_TRANSFORM_TO_DELTA64_FROM_GOT =
        FromGot, WORD64, [], Plt => DELTA64_FROM_GOT;

    // Thread-local variables: values.

    /// The target's offset from the thread pointer.
    /// Fixup expression: Fixup <- Target - TP + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer; the block has no fixed offset from
    /// the thread pointer.
    TPOff32, TPOFF32 = TpRelative, INT32, [TLS];

    /// The target's offset from the thread pointer; what a [`Table::TlsIe`] entry holds.
    /// Fixup expression: Fixup <- Target - TP + Addend : int64
    /// Errors: the block has no fixed offset from the thread pointer.
    ///
    /// [`Table::TlsIe`]: crate::Table::TlsIe
    TPOff64, TPOFF64 = TpRelative, WORD64, [TLS];

    /// The target's offset in its thread-local block.
    /// Fixup expression: Fixup <- Target - TLS + Addend : int32
    /// Errors: the value does not fit a signed 32-bit integer; there is no thread-local block.
    DTPOff32, DTPOFF32 = DtpRelative, INT32, [TLS];

    /// The target's offset in its thread-local block; the second word of a [`Table::TlsGd`] entry.
    /// Fixup expression: Fixup <- Target - TLS + Addend : int64
    /// Errors: there is no thread-local block.
    ///
    /// [`Table::TlsGd`]: crate::Table::TlsGd
    DTPOff64, DTPOFF64 = DtpRelative, WORD64, [TLS];

    /// The number of the target's thread-local block, as `__tls_get_addr` wants it: the first
    /// word of a [`Table::TlsGd`] or [`Table::TlsLd`] entry. Only who loads the program can know
    /// it, so the eight bytes are reserved and left as the entry's maker filled them: 0 where a
    /// dynamic linker will write, 1 in a static executable, the runtime's own word in a JIT.
    /// Fixup expression: none.
    /// Errors: none.
    ///
    /// [`Table::TlsGd`]: crate::Table::TlsGd
    /// [`Table::TlsLd`]: crate::Table::TlsLd
    DTPMod64, DTPMOD64 = None, MARK64, [TLS];

    /// Marks the two bytes `call *(%rax)` that call a descriptor's function.
    /// Fixup expression: none.
    /// Errors: none.
    TLSDescCall, TLS_DESC_CALL = None, NONE, [RELAXABLE TLS];

    // Thread-local variables: requests.

    /// General-dynamic: asks for a pair of words and becomes [`DELTA32`] to it. The edge of the
    /// call of `__tls_get_addr` is the next one.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSGDAndTransformToDelta32, REQUEST_TLSGD_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [RELAXABLE TLS], TlsGd => DELTA32;

    /// Local-dynamic: asks for the block's pair of words and becomes [`DELTA32`] to it. The edge
    /// of the call of `__tls_get_addr` is the next one.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSLDAndTransformToDelta32, REQUEST_TLSLD_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [RELAXABLE TLS], TlsLd => DELTA32;

    /// Initial-exec: asks for an entry with the offset from the thread pointer and becomes
    /// [`DELTA32`] to it. The instruction has a REX prefix.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSIEAndTransformToDelta32, REQUEST_TLSIE_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [RELAXABLE TLS], TlsIe => DELTA32;

    /// The same by an instruction that starts four bytes before the place (REX2 prefix).
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSIECode4AndTransformToDelta32, REQUEST_TLSIE_CODE4_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [RELAXABLE TLS], TlsIe => DELTA32;

    /// The same by an instruction that starts five bytes before the place; never rewritten.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSIECode5AndTransformToDelta32, REQUEST_TLSIE_CODE5_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [TLS], TlsIe => DELTA32;

    /// The same by an instruction that starts six bytes before the place (EVEX prefix).
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSIECode6AndTransformToDelta32, REQUEST_TLSIE_CODE6_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [RELAXABLE TLS], TlsIe => DELTA32;

    /// Asks for a TLS descriptor and becomes [`DELTA32`] to it. The instruction has a REX prefix;
    /// the call is marked with [`TLS_DESC_CALL`].
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSDescAndTransformToDelta32, REQUEST_TLSDESC_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [RELAXABLE TLS], TlsDesc => DELTA32;

    /// The same by an instruction that starts four bytes before the place (REX2 prefix).
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSDescCode4AndTransformToDelta32, REQUEST_TLSDESC_CODE4_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [RELAXABLE TLS], TlsDesc => DELTA32;

    /// The same by an instruction that starts five or six bytes before the place; no assembler
    /// makes one, and it is never rewritten.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLSDescCode5AndTransformToDelta32, REQUEST_TLSDESC_CODE5_AND_TRANSFORM_TO_DELTA32 =
        Relative, INT32, [TLS], TlsDesc => DELTA32;

    /// Asks for a Mach-O thread-local variable's pointer and becomes
    /// [`PCREL32_TLVP_LOAD_REX_RELAXABLE`] to it.
    /// Fixup expression: none before that.
    /// Errors: applied as it is.
    RequestTLVPAndTransformToPCRel32TLVPLoadREXRelaxable,
        REQUEST_TLVP_AND_TRANSFORM_TO_PCREL32_TLVP_LOAD_REX_RELAXABLE =
        Relative, INT32, [RELAXABLE TLS], Tlv => PCREL32_TLVP_LOAD_REX_RELAXABLE;
}
