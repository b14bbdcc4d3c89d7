"""The proofs behind `gpu-minutes check`: each reads the stored rows at a revision and trusts no constraint.

A proof gives None where its law holds, and otherwise the first place where it breaks, in words.
"""
