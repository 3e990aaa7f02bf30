"""Ranks of a training: started on this machine or on Ray, and the program that each runs."""
