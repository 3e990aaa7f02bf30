"""Ranks of a training: how they are started, on this machine or on Ray, and the program of each."""
